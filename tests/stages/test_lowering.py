"""Lowering: failing operators, structures of outputs, another size, crashes in a child."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from stage_runs import facts_of, run_stage
from torch import Tensor, nn

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.pytree import flatten
from pytest_exportready.analysis.execution.trial import Exported, Trial
from pytest_exportready.case.export_case import ExportCase
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.options import CaseOptions
from pytest_exportready.stages import _lowering
from pytest_exportready.stages._lowering import (
    Lowered,
    Lowering,
    LoweringFailed,
    isolated_outputs,
    operator_in,
    quietly,
)
from pytest_exportready.stages._stage import StageInfrastructure

LOWERING = Lowering(Rule("ER999", "lowered_agrees"), "Twin", "Avoid {operator}.")
X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> dict[str, Any]:
        return {"y": self.linear(x).sigmoid(), "none": None, "size": 7}


@pytest.fixture(scope="module")
def trial() -> Trial:
    net = Net().eval()
    made = Trial(ExportCase(net, (X,)), CaseOptions(), "non-strict")
    batch = torch.export.Dim("batch", min=1)
    made.exported = Exported(torch.export.export(net, (X,), dynamic_shapes={"x": {0: batch}}))
    return made


def found(trial: Trial, outputs: Callable[[list[Call]], list[list[Any]]]) -> list[Finding]:
    return run_stage(lambda trial: LOWERING.compare(trial, lambda calls: Lowered(outputs(calls))), trial)


def right(trial: Trial, calls: list[Call]) -> list[list[Any]]:
    return [flatten(trial.reference.output(call))[0] for call in calls]


def test_right_outputs_in_the_forms_of_compilers(trial: Trial) -> None:
    """Unchanged, with numbers as tensors, and without None."""
    assert found(trial, lambda calls: right(trial, calls)) == []
    assert facts_of(trial)["compared"] == 2
    assert found(trial, lambda calls: [[y, None, torch.tensor(n)] for y, _, n in right(trial, calls)]) == []
    assert found(trial, lambda calls: [[y, torch.tensor(n)] for y, _, n in right(trial, calls)]) == []


@pytest.mark.parametrize(
    ("wrong", "where", "problem"),
    [
        (lambda y, n: [y * 1.001, None, n], "output['y']", "largest error"),
        (lambda y, n: [y.double(), None, n], "output['y']", "dtype float64, expected float32"),
        (lambda y, n: [y, None, torch.tensor(n + 1)], "output['size']", "8, expected 7"),
        (lambda y, n: [y], "output['size']", "NoneType, expected int"),
        (lambda y, n: [y, None, n, n], "", "structure"),
    ],
)
def test_wrong_outputs(trial: Trial, wrong: Callable[..., list[Any]], where: str, problem: str) -> None:
    (finding,) = found(trial, lambda calls: [wrong(y, n) for y, _, n in right(trial, calls)])
    assert finding.where == where
    start = "After lowering to Twin, differs from the eager module on the example inputs: "
    assert finding.message.startswith(start + problem)


def test_a_constant_size(trial: Trial) -> None:
    """The example agrees; another size of the dynamic dimension does not."""

    def baked(calls: list[Call]) -> list[list[Any]]:
        return [[y if len(y) == 3 else y * 2, None, n] for y, _, n in right(trial, calls)]

    (finding,) = found(trial, baked)
    assert "on inputs of shape (4, 4)" in finding.message


def test_an_ill_conditioned_output_is_judged_by_float64() -> None:
    """A program that adds in another order may be as far from float64 as the module is."""

    class Cancels(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x + 1e4) - 1e4

    net = Cancels().eval()
    trial = Trial(ExportCase(net, (X,)), CaseOptions(), "non-strict")
    trial.exported = Exported(torch.export.export(net, (X,)))
    assert found(trial, lambda calls: [[X + 0.0] for _ in calls]) == []
    assert facts_of(trial)["judged_by_float64"] == 1


def test_a_failure_names_operator_and_line(trial: Trial) -> None:
    """The line of the program, or of the decomposed one; the operator alone if neither has it."""

    def fails(operator: str) -> Callable[[list[Call]], list[list[Any]]]:
        def outputs(calls: list[Call]) -> list[list[Any]]:
            raise LoweringFailed("NotImplementedError: no kernel", operator)

        return outputs

    for operator in ("aten.linear.default", "aten.addmm.default"):
        (finding,) = found(trial, fails(operator))
        assert (finding.where, finding.file) == ("linear", __file__)
        assert finding.message == f"Lowering to Twin failed at `{operator}`."
        assert (finding.fix, finding.torch_says) == (f"Avoid `{operator}`.", "NotImplementedError: no kernel")
    (finding,) = found(trial, fails("mylib.scan.default"))
    assert (finding.where, finding.file) == ("", "")
    (finding,) = found(trial, fails(""))
    assert finding.fix == "Avoid the operator at which it fails."


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        ("No ONNX function found for <OpOverload(op='aten.foo_bar', overload='Tensor')>.", "aten.foo_bar.Tensor"),
        ("LoweringException: ValueError\n  target: aten.view.default\n  args[0]: 3", "aten.view.default"),
        ("call_function[target=torch.ops.mylib.scan.default](args = ...)", "mylib.scan.default"),
        ("mat1 and mat2 shapes cannot be multiplied (2x5 and 4x3)", ""),
        ("see torch._inductor.config.Default and example.com.Net", ""),
    ],
)
def test_operator_in(text: str, operator: str) -> None:
    assert operator_in(text) == operator


def in_a_child(trial: Trial, work: Callable[[], object], folder: Path) -> list[list[Any]]:
    """Run ``work`` as a lowering that has one output, which is 7."""
    return isolated_outputs(trial, lambda program, calls, folder: [[work(), 7][1:]], [], folder)


def test_isolated_outputs(trial: Trial, tmp_path: Path) -> None:
    """Outputs, reason, operator and line are passed on; files stay, and nothing else of the child."""

    def work() -> None:
        os.environ["LEFT_BY_THE_CHILD"] = "1"
        warnings.warn("as an error, under this project's own filter", stacklevel=1)
        (tmp_path / "done").touch()

    assert in_a_child(trial, work, tmp_path) == [[7]]
    assert (tmp_path / "done").exists()
    assert "LEFT_BY_THE_CHILD" not in os.environ

    def raises() -> None:
        try:
            raise ValueError("target: aten.view.default")
        except ValueError as error:
            raise RuntimeError("boilerplate") from error

    with pytest.raises(LoweringFailed) as caught:
        in_a_child(trial, raises, tmp_path)
    assert (caught.value.reason, caught.value.operator) == (
        "ValueError: target: aten.view.default",
        "aten.view.default",
    )
    assert caught.value.file == __file__

    def quotes() -> None:
        raise ValueError('LoweringFailed: ["a", "aten.add.Tensor", "b.py", 3]')

    with pytest.raises(LoweringFailed) as quoted:
        in_a_child(trial, quotes, tmp_path)
    assert quoted.value.reason == 'ValueError: LoweringFailed: ["a", "aten.add.Tensor", "b.py", 3]'
    with pytest.raises(LoweringFailed) as crashed:
        in_a_child(trial, lambda: os.kill(os.getpid(), signal.SIGSEGV), tmp_path)
    assert "SIGSEGV" in crashed.value.reason


def test_a_timeout_is_an_infrastructure_error(trial: Trial, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_lowering, "SECONDS", 1)
    with pytest.raises(StageInfrastructure, match=r"longer than 1 s, in test_lowering\.py.*leave it out of `lower=`"):
        in_a_child(trial, lambda: time.sleep(60), tmp_path)


def test_quietly(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is printed or logged, and a warning is not an error."""
    import logging

    def work() -> None:
        print("progress")
        logging.getLogger("torch.onnx").error("noise")
        warnings.warn("noise", stacklevel=1)

    quietly(work)
    assert capsys.readouterr() == ("", "")
    assert caplog.records == []
