"""Budgets: figures are recorded, and a limit that is exceeded is an error with figure and limit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from stage_runs import facts_of, run_stage
from torch import nn

from pytest_exportready import Readiness, export_ready_check
from pytest_exportready.analysis.execution.trial import Trial
from pytest_exportready.case.export_case import ExportCase
from pytest_exportready.case.options import CaseOptions
from pytest_exportready.case.readiness import StageResult
from pytest_exportready.stages._stage import SkipStage
from pytest_exportready.stages.budget import STAGE

STAGES = [
    StageResult("export", "passed", 9.0, "non-strict", facts={"seconds": 2.5, "nodes": 120}),
    StageResult("reload", "passed", 9.0, "non-strict", facts={"bytes": 3 * 2**20}),
]


def measured(budget: dict[str, float], results: list[StageResult]) -> Trial:
    trial = Trial(ExportCase(nn.Identity(), ()), CaseOptions(budget=budget), "non-strict")
    trial.results |= {result.name: result for result in results}
    return trial


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        ({"seconds": 2.5, "mib": 3, "nodes": 120}, []),
        ({"seconds": 2}, ["torch.export took 2.5 s; the budget is 2 s. "]),
        ({"mib": 2.5, "nodes": 200}, ["The saved program has 3 MiB; the budget is 2.5 MiB. "]),
        ({"nodes": 119}, ["export: [ER680 within_budget] The graph has 120 nodes; the budget is 119. "]),
        ({"seconds": 1, "nodes": 1}, ["torch.export took", "The graph has"]),
    ],
)
def test_over_budget(budget: dict[str, float], said: list[str]) -> None:
    """A figure at its limit is within it; every figure with a limit is recorded."""
    trial = measured(budget, STAGES)
    found = [str(finding) for finding in run_stage(STAGE.run, trial)]
    assert len(found) == len(said)
    assert all(text in line for text, line in zip(said, found, strict=True))
    assert facts_of(trial).keys() == budget.keys()


def test_a_figure_that_was_not_measured() -> None:
    trial = measured({"mib": 1e-6}, STAGES[:1])
    with pytest.raises(SkipStage, match="not measured: mib"):
        run_stage(STAGE.run, trial)
    assert facts_of(trial) == {}


def judged(model: nn.Module, budget: dict[str, float], **arguments: Any) -> Readiness:
    return export_ready_check(model.eval(), (torch.randn(3, 4),), budget=budget, **arguments)


def test_enforced_in_a_case() -> None:
    """The stage budget fails the case; it runs only if it is requested."""
    net = nn.Linear(4, 2)
    tight = judged(net, {"nodes": 1, "mib": 1.0}, stages=["parity"])
    assert tight.failed_stage == "budget"
    assert [finding.code for finding in tight.errors] == ["ER680"]
    (stage,) = (stage for stage in tight.stages if stage.name == "budget")
    assert stage.facts["nodes"] > 1
    assert 0 < stage.facts["mib"] < 1
    assert "budget" not in [stage.name for stage in export_ready_check(net, (torch.randn(3, 4),)).stages]


def test_a_failed_export() -> None:
    """The case fails at the export, not at the budget."""

    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum() > 0 else -x

    failed = judged(Branches(), {"nodes": 1}, stages=["export"])
    assert failed.failed_stage == "export"
    assert [(s.outcome, s.reason) for s in failed.stages if s.name == "budget"] == [("skipped", "not measured: nodes")]
