"""Ranks that export different programs are reported, even if the outputs are equal."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from pytest_exportready import Readiness, export_ready_check
from pytest_exportready.case.readiness import StageResult
from pytest_exportready.stages.graphs import first_difference

X = torch.linspace(-1.0, 1.0, 12).reshape(4, 3)


class Net(nn.Module):
    """In the rank ``odd`` the program has other nodes, and the same output."""

    def __init__(self, odd: int | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.line, self.odd = nn.Linear(3, 2), odd

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.line(x)
        if int(os.environ.get("RANK_OF_TEST", 0)) == self.odd:
            y = y.neg().neg()
        return y.tanh()


def judged(model: nn.Module, **options: Any) -> tuple[Readiness, StageResult]:
    readiness = export_ready_check(model.eval(), (X,), stages=["graphs"], **options)
    return readiness, next(stage for stage in readiness.stages if stage.name == "graphs")


@pytest.fixture
def rank(world: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("RANK_OF_TEST", str(world.rank))
    return int(world.rank)


@pytest.mark.world(3)
def test_same_programs(rank: int) -> None:
    readiness, stage = judged(Net())
    assert readiness.ready
    assert (stage.outcome, stage.facts) == ("passed", {"ranks": 3, "graphs": 1})


@pytest.mark.world(3)
def test_the_rank_and_the_first_node_are_named(rank: int) -> None:
    readiness, stage = judged(Net(odd=1))
    assert stage.outcome == "failed"
    (finding,) = readiness.errors
    assert (finding.code, finding.rank) == ("ER803", 1)
    message = "Rank 1 exported a different program than rank 0: aten.neg.default at test_stage_graphs.py:"
    assert finding.message.startswith(message)
    assert "instead of aten.tanh.default at test_stage_graphs.py:" in finding.message


@pytest.mark.world(2)
def test_a_rank_that_cannot_export_is_not_waited_for_long(rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_exportready.judge.ready_check.RANK_TIMEOUT", 3.0)

    class Fails(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if torch.compiler.is_exporting() and os.environ["RANK_OF_TEST"] == "1":
                raise ValueError("only here")
            return super().forward(x)

    readiness, stage = judged(Fails())
    assert stage.outcome == "skipped"
    assert ("did not take part" in stage.reason) == (rank == 0)
    assert readiness.ready == (rank == 0)
    dist.barrier()


@pytest.mark.world(2)
def test_ranks_that_are_not_compared_do_not_wait(rank: int) -> None:
    if rank == 0:
        assert judged(Net(), skip_ddp_validation=True)[1].reason == "the ranks are not compared"


def test_one_process_has_no_such_stage() -> None:
    readiness = export_ready_check(Net().eval(), (X,), stages=["export"])
    assert "graphs" not in [stage.name for stage in readiness.stages]


def test_first_difference() -> None:
    one, other = [["1", "a"], ["2", "b"]], [["1", "a"], ["3", "c"], ["4", "d"]]
    assert first_difference(one, other) == ("b", "c")
    assert first_difference(one, one[:1]) == ("b", "nothing")
    assert first_difference(one, one) is None
