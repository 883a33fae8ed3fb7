"""drift: what one step of a healthy training explains is explained, shards that were never synchronized are not.

Two ranks without processes: before each forward the statistics of rank 0 are copied to rank 1, as
DistributedDataParallel does, or they are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from pytest_exportready.analysis.ranks.running_statistics import Drift, drift

CHANNELS = 64


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Many small steps: threads would wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def statistics(norm: Any) -> list[Tensor]:
    return [norm.running_mean.double(), norm.running_var.double(), norm.num_batches_tracked]


def trained(
    *,
    synchronized: bool,
    shift: float = 0.0,
    scale: float = 1.0,
    batch: int = 16,
    steps: int = 50,
    momentum: float | None = 0.1,
    images: bool = False,
    rare: bool = False,
    accumulate: int = 1,
    seed: int = 0,
) -> Drift:
    """Rank 1 against rank 0. shift: by how many standard deviations the features of rank 1 differ, in the mean over
    channels. scale: of their deviation. rare: features that are zero nearly always. accumulate: steps between two
    synchronizations."""
    generator = torch.Generator().manual_seed(seed)
    kind = nn.BatchNorm2d if images else nn.BatchNorm1d
    ranks = [kind(CHANNELS, momentum=momentum) for _ in range(2)]
    inside = (5, 5) if images else ()
    direction = torch.randn(CHANNELS, generator=generator).view(CHANNELS, *(1 for _ in inside))
    for step in range(steps):
        if synchronized and step % accumulate == 0:
            for own, handed in zip(ranks[1].buffers(), ranks[0].buffers(), strict=True):
                own.copy_(handed)
        for rank, norm in enumerate(ranks):
            features = torch.randn(batch, CHANNELS, *inside, generator=generator)
            if images:  # what all pixels of an image share
                features += torch.randn(batch, CHANNELS, 1, 1, generator=generator)
            if rare:
                features = (features - 1.5).relu().square() * 5
            norm(features * (scale if rank else 1.0) + direction * shift * rank)
    return drift(ranks[1], statistics(ranks[0]))


@pytest.mark.parametrize(("shift", "scale"), [(0.0, 1.0), (1.0, 2.0), (3.0, 0.33), (3.0, 3.0)])
@pytest.mark.parametrize("images", [False, True])
def test_the_last_step_of_a_healthy_training_is_explained(shift: float, scale: float, images: bool) -> None:
    """Small and large batches, few and many steps, every kind of momentum, equal and very different shards."""
    for batch, steps, momentum in product((2, 64), (1, 5, 30), (0.1, 0.01, None)):
        found = trained(
            synchronized=True,
            shift=shift,
            scale=scale,
            batch=batch,
            steps=steps,
            momentum=momentum,
            images=images,
        )
        assert found.explained, (batch, steps, momentum, found)
        assert found.differs


@pytest.mark.parametrize("seed", range(3))
def test_features_that_are_seldom_there_are_explained(seed: int) -> None:
    """Their variance in one batch is off by orders of magnitude."""
    for batch, steps, momentum in product((2, 16), (5, 60), (0.1, 0.3, None)):
        found = trained(synchronized=True, rare=True, batch=batch, steps=steps, momentum=momentum, seed=seed)
        assert found.explained, (batch, steps, momentum, found)


@pytest.mark.parametrize("momentum", [0.1, 0.03, 0.01])
def test_gradient_accumulation_is_explained(momentum: float) -> None:
    """Steps under no_sync() do not copy buffers either."""
    for batch, seed in product((2, 16), range(2)):
        found = trained(synchronized=True, accumulate=8, steps=48, batch=batch, momentum=momentum, seed=seed)
        assert found.explained, (batch, seed, found)


@pytest.mark.parametrize(
    ("shift", "scale", "steps", "momentum"),
    [
        (2.0, 1.0, 5, 0.1),
        (3.0, 1.0, 5, 0.3),
        (1.0, 1.0, 60, 0.1),
        (1.0, 1.0, 150, 0.01),
        (0.5, 1.0, 60, None),
        (0.0, 3.0, 60, 0.1),
        (0.0, 0.33, 60, 0.1),
    ],
)
def test_shards_that_were_never_synchronized_are_not(
    shift: float, scale: float, steps: int, momentum: float | None
) -> None:
    for batch, images, seed in product((2, 64), (False, True), range(2)):
        made = {"shift": shift, "scale": scale, "steps": steps, "momentum": momentum, "batch": batch, "images": images}
        found = trained(synchronized=False, seed=seed, **made)  # type: ignore[arg-type]
        assert not found.explained, (made, found)


def test_one_channel_far_off_is_enough() -> None:
    one, other = nn.BatchNorm1d(512), nn.BatchNorm1d(512)
    for norm in (one, other):
        norm.num_batches_tracked.fill_(100)
    one.running_mean[7] = 2.5
    assert not drift(one, statistics(other)).explained
    one.running_mean[7] = 1.5
    assert drift(one, statistics(other)).explained


@pytest.mark.parametrize(("more", "explained"), [(0, True), (1, True), (2, False)])
def test_count_of_batches(more: int, explained: bool) -> None:
    """One more is what Join leaves on the rank with more data."""
    one, other = nn.BatchNorm1d(4), nn.BatchNorm1d(4)
    other.num_batches_tracked.fill_(100)
    one.num_batches_tracked.fill_(100 + more)
    assert drift(one, statistics(other)).explained is explained


def test_synchronized_norms_have_no_leeway(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless they are synchronized among some ranks only."""
    one, other = nn.SyncBatchNorm(4), nn.SyncBatchNorm(4)
    for norm in (one, other):
        norm.num_batches_tracked.fill_(100)
    assert drift(one, statistics(other)).explained
    one.running_mean += 1e-3
    assert not drift(one, statistics(other)).explained
    one.process_group = object()
    assert drift(one, statistics(other)).explained
    assert dist.group.WORLD is None


def test_norms_that_do_not_track() -> None:
    """InstanceNorm without statistics, and deleted buffers."""
    norm = nn.BatchNorm1d(3)
    norm.num_batches_tracked = None
    assert not drift(norm, statistics(nn.BatchNorm1d(3))).differs
