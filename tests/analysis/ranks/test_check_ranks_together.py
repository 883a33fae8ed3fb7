"""Ranks that cannot be compared, and the public function on every rank."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
import torch.distributed as dist
from test_check_ranks import X, differing, judged, net
from torch import Tensor, nn

from pytest_exportready import export_ready_check
from pytest_exportready.analysis.execution.compare import Tolerance
from pytest_exportready.analysis.ranks import check_ranks
from pytest_exportready.analysis.ranks.check_ranks import NotTogether, disagreements
from pytest_exportready.case.export_case import ExportCase


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
    for model, why in (
        (Raises(), "forward raises ValueError on rank 1"),
        (Random(), "two equal calls of forward differ"),
    ):
        found, facts = judged(model)
        assert found == []
        assert why in facts["outputs"]


@pytest.mark.world(2)
def test_rank_0_alone_is_not_a_failure(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Skipped with the reason, sooner the second time; when all come again they are compared."""
    monkeypatch.setattr(check_ranks, "_missed", set())
    if world.rank == 0:
        for seconds in (0.2, 60.0):
            began = time.monotonic()
            with pytest.raises(NotTogether, match=r"rank 1 did not take part.*on every rank"):
                list(disagreements(ExportCase(net(), (X,)), Tolerance(), seconds))
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


def test_one_process_skips_the_stage() -> None:
    readiness = export_ready_check(net(), (X,), stages=["eager"])
    assert "ranks" not in [stage.name for stage in readiness.stages]
