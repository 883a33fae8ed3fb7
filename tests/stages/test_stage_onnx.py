"""ONNX: conversion, agreement in ONNX Runtime, a missing or broken extra."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lowering_trials
import pytest
import torch
from lowering_trials import SUPPORTED, X, exported
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
    monkeypatch.setattr(onnx, "find_spec", lambda name: None if name == "onnxscript" else object())
    with pytest.raises(SkipStage, match=r"onnxscript not installed: pip install 'pytest-exportready\[onnx\]'"):
        found(exported(torch.relu))


def test_a_broken_extra_is_an_infrastructure_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise ImportError("libstdc++.so.6: version not found")

    monkeypatch.setattr(onnx, "find_spec", lambda name: object())
    monkeypatch.setattr(onnx.importlib, "import_module", broken)
    with pytest.raises(StageInfrastructure, match=r"ImportError: libstdc\+\+"):
        found(exported(torch.relu))


def test_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx, "find_spec", lambda name: object())
    with pytest.raises(SkipStage, match="bfloat16"):
        found(exported(lambda y: y.bfloat16()))


def test_constants_in_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX supports tensors only; None is omitted."""
    monkeypatch.setattr(onnx, "find_spec", lambda name: object())
    (finding,) = found(exported(lambda y: {"y": y, "n": 3, "none": None}))
    assert finding.code == "ER672"
    assert "returns 1 Python constant" in finding.message


@pytest.mark.usefixtures("extra")
@SUPPORTED
def test_agrees(then: Callable[[Tensor], Any], kwargs: dict[str, Any]) -> None:
    trial = exported(then, **kwargs)
    assert found(trial) == []
    assert facts_of(trial)["compared"] == 2
    assert facts_of(trial)["bytes"] > 0


@pytest.mark.usefixtures("extra")
def test_an_operator_without_translation() -> None:
    """The operator and its line are named, also if it was decomposed first."""
    (finding,) = found(exported(torch.linalg.svdvals))
    assert finding.message == "Lowering to ONNX failed at `aten._linalg_svd.default`."
    assert finding.torch_says.startswith("DispatchError: No ONNX function")
    assert finding.file == lowering_trials.__file__


@pytest.mark.usefixtures("extra")
def test_wrong_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    run = onnx._run
    monkeypatch.setattr(onnx, "_run", lambda path, calls: [[y * 1.001 for y in leaves] for leaves in run(path, calls)])
    (finding,) = found(exported(torch.relu))
    assert "After lowering to ONNX, differs from the eager module" in finding.message
