"""Decomposition: it agrees, and the program is not changed."""

from __future__ import annotations

import pytest
import torch
from stage_runs import facts_of, run_stage
from torch import Tensor, nn

from pytest_exportready.analysis.execution.trial import Exported, Trial
from pytest_exportready.analysis.program.fingerprint import graph_fingerprint
from pytest_exportready.case.export_case import ExportCase
from pytest_exportready.case.finding import Finding
from pytest_exportready.case.options import CaseOptions
from pytest_exportready.stages.decompose import STAGE

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


class Counting(nn.Module):
    """Writes its own buffer, as a cache does."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 4), nn.LayerNorm(4)
        self.register_buffer("calls", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        self.calls.add_(1)
        y: Tensor = self.norm(self.linear(x)) + self.calls
        return y


@pytest.fixture(scope="module")
def trial() -> Trial:
    net = Counting().eval()
    made = Trial(ExportCase(net, (X,), allow_mutation=True), CaseOptions(), "non-strict")
    exported = torch.export.export(net, (X,), dynamic_shapes={"x": {0: torch.export.Dim("batch", min=1)}})
    made.exported = Exported(exported)
    return made


def found(trial: Trial) -> list[Finding]:
    return run_stage(STAGE.run, trial)


def test_asked() -> None:
    case = ExportCase(nn.Identity(), (X,))
    assert STAGE.asked(Trial(case, CaseOptions(lower=("decompose",)), "non-strict"))
    assert not STAGE.asked(Trial(case, CaseOptions(lower=("onnx",)), "non-strict"))


def test_agrees(trial: Trial) -> None:
    """At two sizes, from the exported state; graph and state are not changed."""
    assert trial.program is not None
    before = graph_fingerprint(trial.program)
    assert found(trial) == []
    assert facts_of(trial)["compared"] == 2
    assert graph_fingerprint(trial.program) == before
    assert float(trial.program.state_dict["calls"].sum()) == 0


def test_a_wrong_decomposition(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gives other outputs, or raises."""
    assert trial.program is not None
    program = trial.program
    shapes = ({0: torch.export.Dim("batch", min=1)},)
    negated = torch.export.export(
        nn.Sequential(Counting(), nn.Threshold(100.0, 3.0)).eval(), (X,), dynamic_shapes=shapes
    )
    monkeypatch.setattr(type(program), "run_decompositions", lambda self: negated)
    (finding,) = found(trial)
    assert finding.code == "ER670"
    assert "After lowering to core ATen, differs from the eager module on the example inputs" in finding.message

    def raises(self: torch.export.ExportedProgram) -> None:
        raise NotImplementedError("no decomposition for aten.linear.default")

    monkeypatch.setattr(type(program), "run_decompositions", raises)
    (finding,) = found(trial)
    assert finding.where == "linear"
    assert finding.message == "Lowering to core ATen failed at `aten.linear.default`."
    assert finding.torch_says.startswith("NotImplementedError")
