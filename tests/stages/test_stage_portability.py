"""Programs for another device: device branches are found on a machine without that device."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import device_corpus
import device_corpus_set_aside
import pytest
import torch
from device_corpus import Net, X, functions
from on_another_device import FAULTS as FAULTS_ON_A_GPU
from pretended_cuda import PretendedCuda
from torch import Tensor

from pytest_exportready import ExportCase
from pytest_exportready.case.options import CaseOptions
from pytest_exportready.case.readiness import Readiness
from pytest_exportready.judge.judge import judge
from pytest_exportready.stages import portability

Forward = Callable[[Any, Tensor], Any]
FAULTS = {**functions(device_corpus.Faults), **functions(device_corpus_set_aside.Faults)}
CLEAN = [*functions(device_corpus.Clean).values(), *functions(device_corpus_set_aside.Clean).values()]


def judged(do: Forward, target: str | None = "cuda") -> Readiness:
    case = ExportCase(Net(do).eval(), (X,), target_device=target)
    return judge(case, CaseOptions(stages=("export", "portability")), name="case")


@pytest.mark.parametrize("do", FAULTS.values(), ids=FAULTS)
def test_a_fixed_device_is_reported_once_with_its_line(do: Forward) -> None:
    errors = [f for f in judged(do).findings if f.severity == "error"]
    lines, first = inspect.getsourcelines(do)
    at = first + next(number for number, line in enumerate(lines) if "# here" in line)
    assert [finding.line for finding in errors] == [at], errors
    assert errors[0].fix


@pytest.mark.parametrize("do", CLEAN, ids=[do.__qualname__ for do in CLEAN])
def test_device_independent_modules(do: Forward) -> None:
    assert [f for f in judged(do).findings if f.severity != "note"] == []


def test_it_runs_only_for_another_device() -> None:
    do = FAULTS["is_cuda"]
    assert "portability" not in [stage.name for stage in judged(do, target=None).stages]
    skipped = next(stage for stage in judged(do, target="cpu").stages if stage.name == "portability")
    assert (skipped.outcome, "the target device" in skipped.reason) == ("skipped", True)


def test_a_node_that_holds_a_device_is_a_warning() -> None:
    @torch.library.custom_op("exportready_portability::made", mutates_args=())
    def made(x: Tensor, device: torch.device) -> Tensor:
        return x.clone()

    made.register_fake(lambda x, device: torch.empty_like(x))
    (finding,) = [f for f in judged(lambda m, x: made(m.linear(x), x.device)).findings if f.code == "ER651"]
    assert (finding.severity, "exportready_portability::made" in finding.message) == ("warning", True)


@pytest.mark.parametrize(("factor", "codes"), [(1.0, []), (1.5, ["ER651"])])
def test_the_program_runs_on_an_available_device(
    monkeypatch: pytest.MonkeyPatch, factor: float, codes: list[str]
) -> None:
    real = portability.output_on
    monkeypatch.setattr(portability, "is_available", lambda device: True)
    monkeypatch.setattr(
        portability, "output_on", lambda trial, program, device: factor * real(trial, program, torch.device("cpu"))
    )
    do = functions(device_corpus.Clean)["positions"]
    assert [f.code for f in judged(do).findings if f.severity == "error"] == codes


def test_another_branch_with_the_same_output_is_a_note() -> None:
    readiness = judged(lambda m, x: m.linear(x.double().float() if x.is_cuda else x))
    assert ("ER650", "note") in [(f.code, f.severity) for f in readiness.findings]


def test_a_gpu_of_this_machine(pretended_cuda: PretendedCuda) -> None:
    """12 healthy models in three dtypes have no finding, although the GPU would use TF32; 8 faults are found."""
    environment = {**pretended_cuda.environment(1), "PRETENDED_TF32": "1"}
    environment["PYTHONPATH"] += os.pathsep + str(Path(__file__).parent)
    program = "import on_another_device; on_another_device.main()"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    faults = {name: found.pop(name)["errors"] for name in FAULTS_ON_A_GPU}
    assert len(found) == 36
    assert {name: one for name, one in found.items() if one["errors"] or not one["ran"]} == {}
    assert all("[ER65" in errors[0] for errors in faults.values()), faults
