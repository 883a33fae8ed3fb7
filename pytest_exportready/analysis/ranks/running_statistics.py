"""How far apart the running statistics of norms are, and whether one training step explains it.

DistributedDataParallel hands rank 0's buffers to all ranks before each forward (``broadcast_buffers=True``), so that
after the last step rank r has (1 - m) * S + m * batch_r of a common S: every healthy training ends with statistics
that differ by one step of momentum m. What matters is the distance in units of the norm itself.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from pytest_exportready.analysis.ranks.gather import Table

if TYPE_CHECKING:
    from pytest_exportready.analysis.torch_internals.modules import Norm

STATISTICS = ("running_mean", "running_var")
_COUNT = "num_batches_tracked"

# Limits, measured on healthy and on unsynchronised trainings (tests/ranks/test_statistics.py): how many standard
# deviations the batches of two ranks may be apart, in the root mean square of a layer's channels and in its worst
# channel, and how many times larger a rank's batch variance may be. A momentum below _SMALLEST_STEP is taken for it:
# several steps without synchronisation (no_sync, gradient accumulation) are healthy too.
_SHIFT, _WORST_SHIFT, _SPREAD = 5.0, 20.0, 15.0
_SMALLEST_STEP = 0.04
_DEFAULT_STEP = 0.1
_FEW = 3  # batches after which statistics begin to mean something; before, the last one is half of them


@dataclass(frozen=True)
class Drift:
    """One norm on one rank against rank 0's.

    shift, worst: difference of the means in standard deviations, root mean square and largest of all channels.
    spread: logarithm of the ratio of the variances, averaged over the channels before it is taken: a rare large value
    sways one channel's variance by orders of magnitude, but as often on one rank as on the other.
    step: momentum; 0 where all ranks must have the same (SyncBatchNorm), inf after hardly any training.
    batches: difference of ``num_batches_tracked``.
    """

    shift: float
    worst: float
    spread: float
    step: float
    batches: int

    @property
    def differs(self) -> bool:
        return bool(self.worst or self.spread or self.batches)

    @property
    def explained(self) -> bool:
        """Whether one step of training on other data explains it.

        Under ``torch.distributed.algorithms.Join`` the rank with more data counts one batch more.
        """
        if not self.step:
            return not self.differs
        step = max(self.step, _SMALLEST_STEP)
        spread = math.log(1 + _SPREAD * step)
        near = self.shift <= _SHIFT * step and self.worst <= _WORST_SHIFT * step and self.spread <= spread
        return near and abs(self.batches) <= 1


def drifts(norms: dict[str, Norm], table: Table) -> tuple[dict[str, dict[int, Drift]], dict[str, Tensor]]:
    """By name and rank the drift of each norm, and rank 0's statistics by their qualified names.

    Every rank calls it with norms of the same names and shapes. Raises AbsentRanks.
    """
    own = {f"{name}.{key}": _tensor(norm, key) for name, norm in norms.items() for key in (*STATISTICS, _COUNT)}
    file = io.BytesIO()
    torch.save(own, file)
    first = table.ranks[0]
    sent = table.gather("statistics", file.getvalue() if table.here == first else b"")[0]
    theirs = torch.load(io.BytesIO(sent), weights_only=True)
    mine = {name: asdict(drift(norm, _of(name, theirs))) for name, norm in norms.items()}
    everyone = dict(zip(table.ranks, table.gather_json("drifts", mine), strict=True))
    return {name: {rank: Drift(**each[name]) for rank, each in everyone.items()} for name in norms}, theirs


def drift(norm: Norm, reference: Sequence[Tensor]) -> Drift:
    """reference: running_mean, running_var and num_batches_tracked of the same norm elsewhere."""
    mean, variance, count = (_tensor(norm, key) for key in (*STATISTICS, _COUNT))
    means, variances = torch.stack([mean, reference[0]]), torch.stack([variance, reference[1]]) + norm.eps
    apart = (means[0] - means[1]).abs() / variances.max(0).values.sqrt()
    shares = variances / variances.max(0).values  # of each channel, so that no channel outweighs another
    spread = (shares[0].mean() / shares[1].mean()).log().abs()
    return Drift(
        shift=float(apart.square().mean().sqrt()),
        worst=float(apart.max()) if apart.numel() else 0.0,
        spread=float(spread),
        step=_step(norm),
        batches=int(count) - int(reference[2]),
    )


def _of(name: str, tensors: dict[str, Tensor]) -> list[Tensor]:
    return [tensors[f"{name}.{key}"] for key in (*STATISTICS, _COUNT)]


def _tensor(norm: Norm, key: str) -> Tensor:
    """In float64 on the CPU; of what a norm does not track, what has no effect."""
    tensor = getattr(norm, key)
    if tensor is None:
        return torch.zeros(()) if key == _COUNT else torch.full((norm.num_features,), float(key == "running_var"))
    found: Tensor = tensor.detach().to("cpu", torch.float64, copy=True)
    return found


def _step(norm: Norm) -> float:
    seen = None if norm.num_batches_tracked is None else int(norm.num_batches_tracked)
    if seen is not None and seen < _FEW:
        return math.inf
    if isinstance(norm, nn.SyncBatchNorm) and norm.process_group in (None, torch.distributed.group.WORLD):
        return 0.0
    if norm.momentum is None:  # the average of all batches
        return _DEFAULT_STEP if seen is None else 1 / seen
    return float(norm.momentum)
