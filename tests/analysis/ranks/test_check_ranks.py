"""disagreements: every way in which ranks diverge is found and named, on every rank alike; healthy trainings are
silent, or get a warning where rank 0's state is the one to ship."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from pytest_exportready import export_ready_check
from pytest_exportready.analysis.execution.compare import Tolerance
from pytest_exportready.analysis.module.snapshot import preserved
from pytest_exportready.analysis.ranks import check_ranks
from pytest_exportready.analysis.ranks.check_ranks import NotTogether, disagreements
from pytest_exportready.case.export_case import ExportCase
from pytest_exportready.case.finding import Finding

X = torch.linspace(-1.0, 1.0, 24).reshape(4, 6)


def net(norm: bool = False) -> nn.Module:
    torch.manual_seed(0)
    middle = nn.BatchNorm1d(8) if norm else nn.LayerNorm(8)
    return nn.Sequential(nn.Linear(6, 8), middle, nn.ReLU(), nn.Linear(8, 2)).eval()


def judged(model: nn.Module, *args: Tensor, seconds: float = 60.0) -> tuple[list[Finding], dict[str, Any]]:
    """The findings, the same on every rank, and the facts; the model is as before."""
    facts: dict[str, Any] = {}
    with preserved(model) as state:
        found = list(disagreements(ExportCase(model, args or (X,)), Tolerance(), facts, seconds))
        assert state.changes() == []
    everywhere: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everywhere, [str(finding) for finding in found])
    assert everywhere == [everywhere[0]] * len(everywhere)
    return found, facts


@contextmanager
def only_on(rank: int, world: Any) -> Iterator[bool]:
    with torch.no_grad():
        yield world.rank == rank


def trained(model: nn.Module, rank: int, steps: int, shift: float, batch: int = 16, **ddp: Any) -> nn.Module:
    """By DistributedDataParallel on shards that are ``shift`` standard deviations apart; the wrapper."""
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
    """Nothing is found, and what was compared is told."""
    found, facts = judged(net())
    assert found == []
    assert facts == {"ranks": 2, "tensors": 6, "outputs": "agree"}


@pytest.mark.world(2)
@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("wrapped", [False, True])
def test_healthy_data_parallel_training(world: Any, norm: bool, wrapped: bool) -> None:
    """Without norms silent; with them a warning that says which rank to export from, however different the shards."""
    for steps, shift in ((1, 3.0), (5, 3.0), (30, 0.0)):
        ddp = trained(net(norm), world.rank, steps, shift)
        found, facts = judged(ddp if wrapped else ddp.module)
        assert [finding.severity for finding in found] == ["warning"] * norm
        assert all("export from rank 0" in finding.fix for finding in found)
        assert facts["outputs"] == "agree"


@pytest.mark.filterwarnings("ignore:.broadcast_buffers. is deprecated:FutureWarning")
@pytest.mark.world(2)
@pytest.mark.parametrize(("steps", "shift"), [(5, 3.0), (40, 2.0)])
def test_statistics_that_were_never_synchronised(world: Any, steps: int, shift: float) -> None:
    ddp = trained(net(norm=True), world.rank, steps, shift, broadcast_buffers=False)
    (finding,), facts = judged(ddp.module)
    assert (finding.code, finding.severity, finding.where) == ("ER801", "error", "1.running_mean")
    assert "running_var" in finding.message
    assert "rank 1 from rank 0" in finding.message
    assert "without broadcast_buffers=False" in finding.fix
    assert facts["outputs"] == "not compared: what the ranks hold differs"


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
    """A model in which the odd rank has one thing unlike the others."""
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
    "mode": ("the root|^", "mode differs: ranks 0, 2: eval, rank 1: training", "model.eval()"),
    "value": ("3.weight", "values differ from those of ranks 0, 2: rank 1 is up to 0.5 off", "broadcast"),
    "dtype": ("3.weight", "dtype differs: ranks 0, 2: float32, rank 1: float64", "one dtype"),
    "frozen": ("3.weight", "requires_grad differs: ranks 0, 2: True, rank 1: False", "freeze"),
    "extra buffer": ("3.extra", "absent on ranks 0, 2, present on rank 1", "same model"),
    "extra layer": ("4", "absent on ranks 0, 2, present on rank 1", "same model"),
    "class": ("2", "class differs: ranks 0, 2: torch.nn.modules.activation.ReLU, rank 1: torch", "same model"),
    "shape": ("3.weight", "shape differs: ranks 0, 2: (2, 8), rank 1: (3, 8)", "same model"),
    "layout": ("0.weight", "stride differs: ranks 0, 2: (6, 1), rank 1: (1, 8)", "memory format"),
    "tie": ("3.twin", "present on rank 1", "same model"),
    "batches": ("1.running_mean", "num_batches_tracked by 5", "broadcast"),
    "device": ("3.weight", "device differs: ranks 0, 2: cpu, rank 1: meta", "device"),
}


@pytest.mark.world(3)
def test_one_rank_that_differs_is_named(world: Any) -> None:
    """With the tensor or module, the field, what each rank has, and the line to write; one cause, not many."""
    for what, (where, message, fix) in KINDS.items():
        found, _ = judged(differing(what, odd=world.rank == 1))
        errors = [finding for finding in found if finding.severity == "error"]
        assert errors, what
        named = [finding for finding in errors if message in finding.message and fix in finding.fix]
        assert named, f"{what}: {[str(finding) for finding in errors]}"
        assert named[0].where == where or where.startswith("the root")
        assert {finding.rank for finding in errors} == {1}, what
        assert len(errors) <= 3, f"{what}: {[str(finding) for finding in errors]}"


@pytest.mark.world(3)
def test_rounding_is_a_warning(world: Any) -> None:
    """Found, named, and the outputs have the last word: processors of different kinds round differently."""
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
    assert "tied to differs: rank 0: 3.weight, rank 1: nothing" in finding.message


@pytest.mark.world(2)
def test_of_two_ranks_both_are_told(world: Any) -> None:
    found, _ = judged(differing("mode", odd=world.rank == 1))
    assert [finding.rank for finding in found] == [None]
    assert "rank 0: eval, rank 1: training" in found[0].message


@pytest.mark.world(2)
def test_what_forward_reads_besides_its_state(world: Any) -> None:
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
    assert "from rank 0 differ rank 1: largest error" in finding.message
    assert finding.message.endswith("forward reads the rank or the number of ranks")
    assert (finding.file, finding.line) == (__file__, ReadsRank.forward.__code__.co_firstlineno + 1)


@pytest.mark.world(2)
def test_buffers_are_judged_by_what_they_change(world: Any) -> None:
    """An error where the outputs differ; otherwise a warning if they ship, and only told if they do not."""
    cases = ((True, True, "error"), (False, True, "error"), (True, False, "warning"), (False, False, "note"))
    for persistent, used, severity in cases:
        found, _ = judged(Odd(float(world.rank), persistent, used))
        assert [(f.code, f.severity, f.where) for f in found] == [("ER801", severity, "part")]


@pytest.mark.world(2)
def test_inputs_of_each_rank_are_its_own(world: Any) -> None:
    """Of other values and sizes: rank 0's are used on all; what cannot travel is said, not failed."""
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


class Raises(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if dist.get_rank():
            raise ValueError("no such shard")
        return x


class Random(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand(())


@pytest.mark.world(2)
def test_a_forward_that_cannot_be_compared_is_left_to_later_stages(world: Any) -> None:
    torch.manual_seed(world.rank)
    for model, why in ((Raises(), "forward raises ValueError on rank 1"), (Random(), "does not repeat itself")):
        found, facts = judged(model)
        assert found == []
        assert why in facts["outputs"]


@pytest.mark.world(2)
def test_rank_0_alone_is_no_fault(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Skipped with the reason, sooner the second time; when all come again they are compared."""
    monkeypatch.setattr(check_ranks, "_missed", set())
    if world.rank == 0:
        for seconds in (0.2, 60.0):
            began = time.monotonic()
            with pytest.raises(NotTogether, match=r"rank 1 did not take part.*on every rank"):
                list(disagreements(ExportCase(net(), (X,)), Tolerance(), {}, seconds))
            assert time.monotonic() - began < 30
    dist.barrier()
    assert judged(net())[0] == []


@pytest.mark.world(2)
def test_export_ready_check_on_every_rank(world: Any) -> None:
    """The stage stands between inspect and the proofs; skip_ddp_validation leaves it out."""
    model = differing("value", odd=world.rank == 1)
    readiness = export_ready_check(model, (X,), stages=["eager"])
    assert [stage.name for stage in readiness.stages][:4] == ["train", "inspect", "ranks", "eager"]
    assert readiness.failed_stage == "ranks"
    assert [finding.code for finding in readiness.errors] == ["ER801"]
    skipped = export_ready_check(model, (X,), stages=["eager"], skip_ddp_validation=True)
    assert "ranks" not in [stage.name for stage in skipped.stages]
    assert skipped.ready


def test_one_process_has_no_such_stage() -> None:
    readiness = export_ready_check(net(), (X,), stages=["eager"])
    assert "ranks" not in [stage.name for stage in readiness.stages]
