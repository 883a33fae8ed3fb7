"""What the lowering stages share: operators named, structures restored, another size, no crash of the process."""

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
from pytest_exportready.case.finding import Rule
from pytest_exportready.case.options import CaseOptions
from pytest_exportready.stages import _lowering
from pytest_exportready.stages._lowering import Lowered, LoweringFailed, apart, operator_in, prove, quietly
from pytest_exportready.stages._stage import StageInfrastructure

RULE = Rule("ER999", "lowered_agrees")
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


def found(trial: Trial, answers: Callable[[list[Call]], list[list[Any]]]) -> list[str]:
    def lower(calls: list[Call]) -> Lowered:
        return Lowered(answers(calls))

    return [
        str(found)
        for found in run_stage(lambda trial: prove(trial, RULE, "the twin", "avoid {operator}", lower), trial)
    ]


def right(trial: Trial, calls: list[Call]) -> list[list[Any]]:
    return [flatten(trial.reference.output(call))[0] for call in calls]


def test_right_answers_pass_in_the_forms_that_compilers_give(trial: Trial) -> None:
    """As they are, with numbers as tensors, and without None."""
    assert found(trial, lambda calls: right(trial, calls)) == []
    assert facts_of(trial)["compared"] == 2
    assert found(trial, lambda calls: [[y, None, torch.tensor(n)] for y, _, n in right(trial, calls)]) == []
    assert found(trial, lambda calls: [[y, torch.tensor(n)] for y, _, n in right(trial, calls)]) == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda y, n: [y * 1.001, None, n], "output['y']"),
        (lambda y, n: [y.double(), None, n], "dtype"),
        (lambda y, n: [y, None, torch.tensor(n + 1)], "output['size']"),
        (lambda y, n: [y], "output['size']"),
        (lambda y, n: [y, None, n, n], "structure"),
    ],
)
def test_wrong_answers_are_found(trial: Trial, wrong: Callable[..., list[Any]], said: str) -> None:
    (told,) = found(trial, lambda calls: [wrong(y, n) for y, _, n in right(trial, calls)])
    assert said in told
    assert "the twin (non-strict) and the trained module disagree on the example inputs" in told


def test_a_size_that_was_baked_is_found(trial: Trial) -> None:
    """The example agrees; another size of the dynamic dimension does not."""

    def baked(calls: list[Call]) -> list[list[Any]]:
        return [[y if len(y) == 3 else y * 2, None, n] for y, _, n in right(trial, calls)]

    (told,) = found(trial, baked)
    assert "inputs of another size, (4, 4)" in told


def test_an_ill_conditioned_answer_is_judged_by_float64() -> None:
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
    """Of the program, or of the decomposed one; where neither knows it, the operator alone."""

    def fails(operator: str) -> Callable[[list[Call]], list[list[Any]]]:
        def answers(calls: list[Call]) -> list[list[Any]]:
            raise LoweringFailed("NotImplementedError: no kernel", operator)

        return answers

    for operator in ("aten.linear.default", "aten.addmm.default"):
        (told,) = found(trial, fails(operator))
        assert told.startswith("linear, ")
        assert "test_lowering.py:" in told
        assert f"cannot be had at {operator}. Fix: avoid {operator}\n torch: NotImplementedError: no kernel" in told
    (told,) = found(trial, fails("mylib.scan.default"))
    assert told.startswith("the model: ")
    (told,) = found(trial, fails(""))
    assert "Fix: avoid the operator at which it stops" in told


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


def test_apart_tells_what_was_raised_and_survives_a_crash(tmp_path: Path) -> None:
    """Reason, operator and place come across; files stay, everything else of the child is gone."""

    def work() -> None:
        os.environ["LEFT_BY_THE_CHILD"] = "1"
        warnings.warn("as an error, under this project's own filter", stacklevel=1)
        (tmp_path / "done").touch()

    apart(work)
    assert (tmp_path / "done").exists()
    assert "LEFT_BY_THE_CHILD" not in os.environ

    def raises() -> None:
        try:
            raise ValueError("target: aten.view.default")
        except ValueError as error:
            raise RuntimeError("boilerplate") from error

    with pytest.raises(LoweringFailed) as caught:
        apart(raises)
    assert (caught.value.reason, caught.value.operator) == (
        "ValueError: target: aten.view.default",
        "aten.view.default",
    )
    assert caught.value.file == __file__

    def quotes() -> None:
        raise ValueError('LoweringFailed: ["a", "aten.add.Tensor", "b.py", 3]')

    with pytest.raises(LoweringFailed) as quoted:
        apart(quotes)
    assert quoted.value.reason == 'ValueError: LoweringFailed: ["a", "aten.add.Tensor", "b.py", 3]'
    with pytest.raises(LoweringFailed) as crashed:
        apart(lambda: os.kill(os.getpid(), signal.SIGSEGV))
    assert "SIGSEGV" in crashed.value.reason


def test_apart_does_not_blame_the_program_for_the_time_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lowering, "SECONDS", 1)
    with pytest.raises(StageInfrastructure, match=r"longer than 1 s, in test_lowering\.py.*leave it out of lower="):
        apart(lambda: time.sleep(60))


def test_quietly_says_nothing(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    """Nor is a warning turned into an error."""
    import logging

    def work() -> None:
        print("progress")
        logging.getLogger("torch.onnx").error("noise")
        warnings.warn("noise", stacklevel=1)

    quietly(work)
    assert capsys.readouterr() == ("", "")
    assert caplog.records == []
