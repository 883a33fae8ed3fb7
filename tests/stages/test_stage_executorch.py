"""ExecuTorch: lowering, agreement in its runtime, a missing or broken extra."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lowering_trials
import pytest
import torch
from lowering_trials import SUPPORTED, X, exported
from stage_runs import facts_of, run_stage
from torch import Tensor, nn

from pytest_exportready.analysis.execution.trial import Exported, Trial
from pytest_exportready.case.export_case import ExportCase
from pytest_exportready.case.finding import Finding
from pytest_exportready.case.options import CaseOptions
from pytest_exportready.stages import executorch
from pytest_exportready.stages._stage import SkipStage, StageInfrastructure
from pytest_exportready.stages.executorch import STAGE


@pytest.fixture
def extra() -> None:
    pytest.importorskip("executorch")


def found(trial: Trial) -> list[Finding]:
    return run_stage(STAGE.run, trial)


def test_asked() -> None:
    case = ExportCase(nn.Identity(), (X,))
    assert STAGE.asked(Trial(case, CaseOptions(lower=("executorch",)), "non-strict"))
    assert not STAGE.asked(Trial(case, CaseOptions(lower=("onnx",)), "non-strict"))


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executorch, "find_spec", lambda name: None)
    with pytest.raises(SkipStage, match=r"executorch not installed: pip install 'pytest-exportready\[executorch\]'"):
        found(exported(torch.relu))


def test_a_broken_extra_is_an_infrastructure_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one that was built for another torch."""

    def broken(name: str) -> None:
        raise ImportError("_portable_lib.so: undefined symbol")

    monkeypatch.setattr(executorch, "find_spec", lambda name: object())
    monkeypatch.setattr(executorch.importlib, "import_module", broken)
    with pytest.raises(StageInfrastructure, match="ImportError: _portable_lib"):
        found(exported(torch.relu))


@pytest.mark.usefixtures("extra")
@SUPPORTED
def test_agrees(then: Callable[[Tensor], Any], kwargs: dict[str, Any]) -> None:
    trial = exported(then, **kwargs)
    assert found(trial) == []
    assert facts_of(trial)["compared"] == 2
    assert facts_of(trial)["bytes"] > 0


@pytest.mark.usefixtures("extra")
def test_channels_last() -> None:
    net, x = nn.Conv2d(3, 4, 3).eval(), torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    trial = Trial(ExportCase(net, (x,)), CaseOptions(), "non-strict")
    trial.exported = Exported(torch.export.export(net, (x,)))
    assert found(trial) == []


def test_an_example_that_is_not_contiguous(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executorch, "find_spec", lambda name: object())
    (finding,) = found(exported(torch.relu, X.t().contiguous().t()))
    assert (finding.code, finding.where) == ("ER673", "x")
    assert "neither contiguous nor channels_last" in finding.message


@pytest.mark.usefixtures("extra")
def test_a_size_without_bound() -> None:
    """It is bounded by the largest size that is compared; the warning names that of the example."""
    trial = exported(torch.relu, most=None)
    (finding,) = found(trial)
    assert facts_of(trial)["compared"] == 2
    assert not finding.blocks
    assert (finding.code, finding.where) == ("ER673", "x")
    assert "Dimension 0 has no upper bound" in finding.message
    assert finding.message.endswith("the size of the example, 3.")


@pytest.mark.usefixtures("extra")
def test_an_operator_without_a_kernel() -> None:
    (finding,) = found(exported(torch.linalg.svdvals))
    assert "_linalg_svd" in finding.message
    assert finding.file == lowering_trials.__file__


@pytest.mark.usefixtures("extra")
def test_wrong_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    run = executorch._run
    wrong = lambda path, calls: [[y * 1.001 for y in leaves] for leaves in run(path, calls)]  # noqa: E731
    monkeypatch.setattr(executorch, "_run", wrong)
    (finding,) = found(exported(torch.relu))
    assert "After lowering to ExecuTorch, differs from the eager module" in finding.message
