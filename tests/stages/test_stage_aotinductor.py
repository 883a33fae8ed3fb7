"""AOTInductor: a small program compiles and agrees; missing compilers and failures are reported."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import torch
from stage_runs import facts_of, run_stage
from torch import Tensor, nn

from pytest_exportready.analysis.execution.trial import Exported, Trial
from pytest_exportready.case.export_case import ExportCase
from pytest_exportready.case.finding import Finding
from pytest_exportready.case.options import CaseOptions
from pytest_exportready.stages import _lowering, aotinductor
from pytest_exportready.stages._stage import SkipStage, StageInfrastructure
from pytest_exportready.stages.aotinductor import STAGE

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
needs_compiler = pytest.mark.skipif(shutil.which(os.environ.get("CXX") or "g++") is None, reason="no C++ compiler")


class Net(nn.Module):
    """Has a generated kernel, as there is no matmul."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0, -2.0, 3.0, -4.0]))

    def forward(self, x: Tensor) -> dict[str, object]:
        return {"y": (x * self.weight).relu(), "one": 1}


@pytest.fixture(scope="module")
def trial() -> Trial:
    net = Net().eval()
    made = Trial(ExportCase(net, (X,)), CaseOptions(), "non-strict")
    exported = torch.export.export(net, (X,), dynamic_shapes={"x": {0: torch.export.Dim("batch", min=1)}})
    made.exported = Exported(exported)
    return made


def found(trial: Trial) -> list[Finding]:
    return run_stage(STAGE.run, trial)


def test_asked() -> None:
    case = ExportCase(nn.Identity(), (X,))
    assert STAGE.asked(Trial(case, CaseOptions(lower=("aotinductor",)), "non-strict"))
    assert not STAGE.asked(Trial(case, CaseOptions(lower=("decompose",)), "non-strict"))


@needs_compiler
def test_compiles_and_agrees(trial: Trial, capfd: pytest.CaptureFixture[str]) -> None:
    """At two sizes; the environment is not changed, and nothing is printed."""
    before = dict(os.environ)
    assert found(trial) == []
    assert facts_of(trial)["compared"] == 2
    assert facts_of(trial)["bytes"] > 0
    assert dict(os.environ) == before
    assert capfd.readouterr() == ("", "")


@needs_compiler
def test_in_the_loader_process(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where CUDA is in use in this process, the saved program is compiled elsewhere, with the same facts."""
    monkeypatch.setattr(_lowering, "forks_can_use_cuda", lambda: False)
    monkeypatch.setattr(_lowering, "in_child", None)
    assert found(trial) == []
    assert facts_of(trial)["compared"] == 2


def test_without_a_compiler(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(SkipStage, match=r"C\+\+ compiler no-such-compiler not found: apt-get install"):
        found(trial)


@needs_compiler
def test_failures(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure of the model is a finding, one of the machine an infrastructure error; wrong outputs are found."""

    def compiled(message: str) -> None:
        def fails(program: torch.export.ExportedProgram, path: str) -> str:
            raise RuntimeError(message)

        monkeypatch.setattr(aotinductor, "aot_compiled", fails)

    compiled("LoweringException: NotImplementedError\n  target: aten.relu.default")
    (finding,) = found(trial)
    assert finding.code == "ER671"
    assert finding.message == "Lowering to AOTInductor failed at `aten.relu.default`."
    assert Path(finding.file) == Path(__file__)
    compiled("CppCompileError: fatal error: Python.h: No such file or directory")
    with pytest.raises(StageInfrastructure, match=r"does not work: .*CppCompileError"):
        found(trial)

    def wrong(program: torch.export.ExportedProgram, path: str) -> str:
        Path(path).touch()
        return path

    monkeypatch.setattr(aotinductor, "aot_compiled", wrong)
    monkeypatch.setattr(aotinductor, "aot_loaded", lambda path: lambda x: {"y": x, "one": 1})
    (finding,) = found(trial)
    assert finding.where == "output['y']"
