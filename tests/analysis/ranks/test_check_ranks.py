"""disagreements: whatever differs between ranks is found and named, the same on every rank; healthy trainings are not
reported, or get a warning if the state of rank 0 must be exported."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from pytest_exportready.analysis.execution.compare import Tolerance
from pytest_exportready.analysis.module.snapshot import preserved
from pytest_exportready.analysis.ranks.check_ranks import disagreements
from pytest_exportready.case.export_case import ExportCase
from pytest_exportready.case.finding import Finding

X = torch.linspace(-1.0, 1.0, 24).reshape(4, 6)


def net(norm: bool = False) -> nn.Module:
    torch.manual_seed(0)
    middle = nn.BatchNorm1d(8) if norm else nn.LayerNorm(8)
    return nn.Sequential(nn.Linear(6, 8), middle, nn.ReLU(), nn.Linear(8, 2)).eval()


def judged(model: nn.Module, *args: Tensor, seconds: float = 60.0) -> tuple[list[Finding], dict[str, Any]]:
    """The findings, the same on every rank, and the facts; the model is as before."""
    with preserved(model) as state:
        seen = list(disagreements(ExportCase(model, args or (X,)), Tolerance(), seconds))
        assert state.changes() == []
    found = [item for item in seen if isinstance(item, Finding)]
    facts = {name: value for item in seen if isinstance(item, dict) for name, value in item.items()}
    everywhere: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everywhere, [str(finding) for finding in found])
    assert everywhere == [everywhere[0]] * len(everywhere)
    return found, facts


@contextmanager
def only_on(rank: int, world: Any) -> Iterator[bool]:
    with torch.no_grad():
        yield world.rank == rank


def trained(model: nn.Module, rank: int, steps: int, shift: float, batch: int = 16, **ddp: Any) -> nn.Module:
    """Train on shards that differ by ``shift`` standard deviations; return the DistributedDataParallel."""
    wrapped = DistributedDataParallel(model.train(), **ddp)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(10 + rank)
    for _ in range(steps):
        optimizer.zero_grad()
        wrapped(torch.randn(batch, 6, generator=generator) + shift * rank).square().mean().backward()
        optimizer.step()
    return wrapped.eval()


@pytest.mark.world(2)
def test_ranks_that_agree(world: Any) -> None:
    """Nothing is found, and the facts say what was compared."""
    found, facts = judged(net())
    assert found == []
    assert facts == {"ranks": 2, "tensors": 6, "outputs": "agree"}


@pytest.mark.world(2)
@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("wrapped", [False, True])
def test_healthy_data_parallel_training(world: Any, norm: bool, wrapped: bool) -> None:
    """Nothing without norms; with them a warning that says which rank to export from, however different the shards."""
    for steps, shift in ((1, 3.0), (5, 3.0), (30, 0.0)):
        ddp = trained(net(norm), world.rank, steps, shift)
        found, facts = judged(ddp if wrapped else ddp.module)
        assert [finding.severity for finding in found] == ["warning"] * norm
        assert all("Export from rank 0" in finding.fix for finding in found)
        assert facts["outputs"] == "agree"


@pytest.mark.filterwarnings("ignore:.broadcast_buffers. is deprecated:FutureWarning")
@pytest.mark.world(2)
@pytest.mark.parametrize(("steps", "shift"), [(5, 3.0), (40, 2.0)])
def test_statistics_that_were_never_synchronized(world: Any, steps: int, shift: float) -> None:
    ddp = trained(net(norm=True), world.rank, steps, shift, broadcast_buffers=False)
    (finding,), facts = judged(ddp.module)
    assert (finding.code, finding.severity, finding.where) == ("ER801", "error", "1.running_mean")
    assert "running_var" in finding.message
    assert "on rank 1 from rank 0" in finding.message
    assert "without `broadcast_buffers=False`" in finding.fix
    assert facts["outputs"] == "not compared: the state of the ranks differs"


class Odd(nn.Module):
    """Its ``forward`` adds what a rank has of ``part``."""

    def __init__(self, part: Any, persistent: bool | None = None, used: bool = True) -> None:
        super().__init__()
        self.linear = net()
        self.used = used
        if persistent is None:
            self.part = part
        else:
            self.register_buffer("part", torch.tensor(part), persistent=persistent)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) + (self.part if self.used else 0)


def differing(what: str, odd: bool) -> nn.Module:
    """Return a model in which the odd rank differs from the others in one thing."""
    model: Any = net(norm=True)
    if not odd:
        return model
    with torch.no_grad():
        if what == "mode":
            model.train()
        elif what == "value":
            model[3].weight[1, 2] += 0.5
        elif what == "dtype":
            model[3].double()
        elif what == "frozen":
            model[3].weight.requires_grad_(False)
        elif what == "extra buffer":
            model[3].register_buffer("extra", torch.zeros(1))
        elif what == "extra layer":
            model.append(nn.Linear(2, 2))
        elif what == "class":
            model[2] = nn.GELU()
        elif what == "shape":
            model[3] = nn.Linear(8, 3)
        elif what == "layout":
            model[0].weight = nn.Parameter(model[0].weight.t().contiguous().t())
        elif what == "tie":
            model[3].bias = nn.Parameter(torch.zeros(2))
            model[3].twin = model[3].bias
        elif what == "batches":
            model[1].num_batches_tracked += 5
        elif what == "device":
            model[3].to("meta")
    return model


KINDS = {
    "mode": ("", "This module differs in mode: eval on ranks 0, 2, training on rank 1", "model.eval()"),
    "value": ("3.weight", "differs in values from ranks 0, 2: rank 1 is up to 0.5 off", "broadcast"),
    "dtype": ("3.weight", "differs in dtype: float32 on ranks 0, 2, float64 on rank 1", "one dtype"),
    "frozen": ("3.weight", "differs in requires_grad: True on ranks 0, 2, False on rank 1", "Freeze"),
    "extra buffer": ("3.extra", "is absent on ranks 0, 2, present on rank 1", "same model"),
    "extra layer": ("4", "is absent on ranks 0, 2, present on rank 1", "same model"),
    "class": ("2", "differs in class: torch.nn.modules.activation.ReLU on ranks 0, 2, torch", "same model"),
    "shape": ("3.weight", "differs in shape: (2, 8) on ranks 0, 2, (3, 8) on rank 1", "same model"),
    "layout": ("0.weight", "differs in stride: (6, 1) on ranks 0, 2, (1, 8) on rank 1", "memory format"),
    "tie": ("3.twin", "present on rank 1", "same model"),
    "batches": ("1.running_mean", "`num_batches_tracked` by 5", "broadcast"),
    "device": ("3.weight", "differs in device: cpu on ranks 0, 2, meta on rank 1", "device"),
}


@pytest.mark.world(3)
def test_one_rank_that_differs_is_named(world: Any) -> None:
    """With the tensor or module, the field, what each rank has, and the fix; one cause, not many."""
    for what, (where, message, fix) in KINDS.items():
        found, _ = judged(differing(what, odd=world.rank == 1))
        errors = [finding for finding in found if finding.severity == "error"]
        assert errors, what
        named = [finding for finding in errors if message in finding.message and fix in finding.fix]
        assert named, f"{what}: {[str(finding) for finding in errors]}"
        assert named[0].where == where
        assert {finding.rank for finding in errors} == {1}, what
        assert len(errors) <= 3, f"{what}: {[str(finding) for finding in errors]}"


@pytest.mark.world(3)
def test_rounding_is_a_warning(world: Any) -> None:
    """Reported as a warning, as processors of different kinds round differently; the outputs are still compared."""
    model: Any = net()
    if world.rank == 1:
        with torch.no_grad():
            model[3].weight.copy_(torch.nextafter(model[3].weight, torch.ones(())))
    (finding,), facts = judged(model)
    assert (finding.code, finding.severity, finding.where, finding.rank) == ("ER801", "warning", "3.weight", 1)
    assert facts["outputs"] == "agree"


@pytest.mark.world(2)
def test_a_tie_that_one_rank_has_broken(world: Any) -> None:
    model: Any = net()
    model[3].twin = nn.Parameter(model[3].weight.detach().clone()) if world.rank else model[3].weight
    (finding,), _ = judged(model)
    assert finding.where == "3.twin"
    assert "differs in tie: 3.weight on rank 0, none on rank 1" in finding.message


@pytest.mark.world(2)
def test_of_two_ranks_both_are_named(world: Any) -> None:
    found, _ = judged(differing("mode", odd=world.rank == 1))
    assert [finding.rank for finding in found] == [None]
    assert "eval on rank 0, training on rank 1" in found[0].message


@pytest.mark.world(2)
def test_what_forward_reads_in_addition_to_its_state(world: Any) -> None:
    """The rank, a cache, a Python number: no parameter differs, the outputs do. The attribute is named."""
    for part in (float(world.rank), [torch.full((2,), float(world.rank))][0]):
        (finding,), facts = judged(Odd(part))
        assert (finding.code, finding.severity, finding.where) == ("ER802", "error", "part")
        assert "rank 1" in finding.message
        assert facts["outputs"] == "differ"
    assert judged(Odd(float(world.rank), used=False))[0] == []


class ReadsRank(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * (1 + dist.get_rank())


@pytest.mark.world(3)
def test_the_rank_read_in_forward(world: Any) -> None:
    (finding,), _ = judged(ReadsRank())
    assert finding.code == "ER802"
    assert finding.where == "output"
    assert "compared with rank 0: " in finding.message
    assert "on rank 1" in finding.message
    assert finding.message.endswith("`forward` reads the rank or the number of ranks.")
    assert (finding.file, finding.line) == (__file__, ReadsRank.forward.__code__.co_firstlineno + 1)


@pytest.mark.world(2)
def test_buffers_are_judged_by_what_they_change(world: Any) -> None:
    """An error if the outputs differ; otherwise a warning if they ship, and a note if they do not."""
    cases = ((True, True, "error"), (False, True, "error"), (True, False, "warning"), (False, False, "note"))
    for persistent, used, severity in cases:
        found, _ = judged(Odd(float(world.rank), persistent, used))
        assert [(f.code, f.severity, f.where) for f in found] == [("ER801", severity, "part")]


@pytest.mark.world(2)
def test_inputs_of_each_rank_are_its_own(world: Any) -> None:
    """Inputs of other values and sizes: all ranks use those of rank 0. What cannot be sent is not a failure."""
    own = torch.randn(4 + world.rank, 6, generator=torch.Generator().manual_seed(world.rank))
    found, facts = judged(net(), own)
    assert (found, facts["outputs"]) == ([], "agree")

    class Batch:
        def __init__(self) -> None:
            self.x = X

    class Takes(nn.Module):
        def forward(self, batch: Batch) -> Tensor:
            return batch.x * dist.get_rank()

    found, facts = judged(Takes(), Batch())  # type: ignore[arg-type]
    assert found == []
    assert facts["outputs"].startswith("not compared: the example inputs differ between ranks, and those of rank 0")
