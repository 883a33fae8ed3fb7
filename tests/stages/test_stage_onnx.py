"""ONNX: what converts agrees in ONNX Runtime; what does not is named; without the extra the stage is skipped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lowering_trials
import pytest
import torch
from lowering_trials import TAKEN, X, exported
from stage_runs import facts_of, run_stage
from torch import Tensor, nn

from pytest_exportready.analysis.execution.trial import Trial
from pytest_exportready.case.export_case import ExportCase
from pytest_exportready.case.finding import Finding
from pytest_exportready.case.options import CaseOptions
from pytest_exportready.stages import onnx
from pytest_exportready.stages._stage import SkipStage, StageInfrastructure
from pytest_exportready.stages.onnx import STAGE


@pytest.fixture
def extra() -> None:
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package)


def found(trial: Trial) -> list[Finding]:
    return run_stage(STAGE.run, trial)


def test_asked() -> None:
    case = ExportCase(nn.Identity(), (X,))
    assert STAGE.asked(Trial(case, CaseOptions(lower=("onnx",)), "non-strict"))
    assert not STAGE.asked(Trial(case, CaseOptions(lower=("decompose",)), "non-strict"))


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what to install."""
    monkeypatch.setattr(onnx, "find_spec", lambda name: None if name == "onnxscript" else object())
    with pytest.raises(SkipStage, match=r"no onnxscript: pip install 'pytest-exportready\[onnx\]'"):
        found(exported(torch.relu))


def test_a_broken_extra_is_no_fault_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise ImportError("libstdc++.so.6: version not found")

    monkeypatch.setattr(onnx, "find_spec", lambda name: object())
    monkeypatch.setattr(onnx.importlib, "import_module", broken)
    with pytest.raises(StageInfrastructure, match=r"ImportError: libstdc\+\+"):
        found(exported(torch.relu))


def test_half_precision_that_python_cannot_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx, "find_spec", lambda name: object())
    with pytest.raises(SkipStage, match="bfloat16"):
        found(exported(lambda y: y.bfloat16()))


def test_constants_in_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX has tensors only; None is left out and fine."""
    monkeypatch.setattr(onnx, "find_spec", lambda name: object())
    (finding,) = found(exported(lambda y: {"y": y, "n": 3, "none": None}))
    assert finding.code == "ER672"
    assert "returns 1 constant besides tensors" in finding.message


@pytest.mark.usefixtures("extra")
@TAKEN
def test_agrees(then: Callable[[Tensor], Any], kwargs: dict[str, Any]) -> None:
    """Dicts, None, sizes, integers; masks, None and numbers as inputs; two sizes each."""
    trial = exported(then, **kwargs)
    assert found(trial) == []
    assert facts_of(trial)["compared"] == 2
    assert facts_of(trial)["bytes"] > 0


@pytest.mark.usefixtures("extra")
def test_an_operator_that_onnx_has_not() -> None:
    """It, its module and its line are named, also where the export decomposed it first."""
    (finding,) = found(exported(torch.linalg.svdvals))
    assert "at aten._linalg_svd.default: DispatchError: No ONNX function" in finding.message
    assert finding.file == lowering_trials.__file__


@pytest.mark.usefixtures("extra")
def test_wrong_numbers_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    run = onnx._run
    monkeypatch.setattr(onnx, "_run", lambda path, calls: [[y * 1.001 for y in leaves] for leaves in run(path, calls)])
    (finding,) = found(exported(torch.relu))
    assert "the program in ONNX Runtime (non-strict) and the trained module disagree" in finding.message
