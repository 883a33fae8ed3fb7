from __future__ import annotations

import unittest

import pytest
import torch
from torch import nn

from pytest_exportready.case.export_case import ExportCase
from pytest_exportready.case.options import CaseOptions
from pytest_exportready.case.readiness import Readiness, StageResult
from pytest_exportready.session import verdict

ONLY_EXPORT = CaseOptions(stages=("export",))


def judged(returned: object, options: CaseOptions = ONLY_EXPORT, required: bool = False) -> Readiness:
    stages: list[str] = []
    return verdict.judge_returned(
        returned, options, name="case", scenario="plain", required=required, watch=stages.append
    )


def linear() -> tuple[nn.Module, tuple[torch.Tensor]]:
    return nn.Linear(3, 2).eval(), (torch.randn(4, 3),)


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (None, "returned None"),
        (linear()[0], "returned a Linear"),
        (torch.zeros(2), "returned a Tensor"),
        ("ab", "returned a str"),
        ([*linear(), {}, 4], "a list of 4 (Linear, tuple, dict, int)"),
        ((linear()[0], torch.zeros(2)), "one tensor, not a tuple of inputs"),
        ((3, (torch.zeros(2),)), "the model is a int"),
        ((*linear(), [3]), "keyword inputs are a list"),
        ((nn.Linear, (torch.zeros(2),)), "the model is a class Linear"),
    ],
)
def test_what_is_no_case_is_a_finding(returned: object, told: str) -> None:
    readiness = judged(returned)
    assert (readiness.outcome, readiness.failed_stage) == ("failed", "case")
    (finding,) = readiness.findings
    assert finding.code == "ER101"
    assert told in finding.message
    assert finding.fix


def test_a_case_is_trained_unless_it_carries_results_of_a_training() -> None:
    model, args = linear()
    assert judged((model, args)).scenario == "plain"
    carried = ExportCase(model, args, checkpoint=model.state_dict())
    assert judged(carried).scenario == "as_is"
    assert judged(carried, required=True).scenario == "plain"


def error_here() -> Exception:
    try:
        raise ValueError("no\x00 \udcff weights")
    except ValueError as error:
        return error


def test_a_raise_is_a_finding_with_the_users_line() -> None:
    error = error_here()
    assert error.__traceback__ is not None
    readiness = verdict.raised(error, name="case", scenario="plain")
    (finding,) = readiness.findings
    assert (finding.code, finding.file, finding.line) == ("ER102", __file__, error.__traceback__.tb_lineno)
    assert finding.message == "the case function raised ValueError: no\ufffd \ufffd weights"


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory")])
def test_no_memory_is_the_runners_fault(error: Exception) -> None:
    readiness = verdict.raised(error, name="case", scenario="plain")
    assert (readiness.outcome, readiness.failed_stage, readiness.findings) == ("infra", "case", ())


def test_what_pytest_gives_a_meaning_to_is_no_fault() -> None:
    for own in (pytest.skip.Exception, pytest.xfail.Exception, unittest.SkipTest):
        assert issubclass(own, verdict.PYTESTS_OWN)
    assert not issubclass(pytest.fail.Exception, verdict.PYTESTS_OWN)
    assert issubclass(pytest.fail.Exception, verdict.FAULTS)


def readiness(outcome: str, stage: str = "export") -> Readiness:
    if outcome == "infra":
        return Readiness("case", "plain", (StageResult(stage, "infra", reason="no disk"),), ())
    if outcome == "failed":
        finding = verdict.RETURNS_CASE.error("w", "is wrong", "mend it", stage=stage)
        return Readiness("case", "plain", (StageResult(stage, "failed"),), (finding,))
    return Readiness("case", "plain", (StageResult(stage, "passed"),), ())


@pytest.mark.parametrize(
    ("given", "expected", "told"),
    [
        (
            readiness("failed"),
            "",
            "not ready, failed at export: returns_a_case\nw: [ER101 returns_a_case] is wrong*",
        ),
        (readiness("infra"), "", "not ready, could not be judged at export\nexport: no disk"),
        (readiness("passed"), "export", "expected to fail at export (why), but it passed every stage"),
        (
            readiness("failed", "parity"),
            "export",
            "expected to fail at export (why), but it failed at parity: *",
        ),
        (
            readiness("infra"),
            "export",
            "expected to fail at export (why), but it could not be judged at export*",
        ),
    ],
    ids=["failed", "infra", "passes", "elsewhere", "infra_is_not_expected"],
)
def test_settle_fails(given: Readiness, expected: str, told: str) -> None:
    with pytest.raises(pytest.fail.Exception) as raised:
        verdict.settle(given, CaseOptions(xfail_stage=expected, reason="why"))
    assert raised.type is not pytest.xfail.Exception
    lines = pytest.LineMatcher(str(raised.value).splitlines())
    lines.fnmatch_lines([line.replace("[", "[[]") for line in told.splitlines()])


def test_settle_xfails_and_passes() -> None:
    expecting = CaseOptions(xfail_stage="export", reason="why")
    with pytest.raises(pytest.xfail.Exception, match=r"known to fail at export: why"):
        verdict.settle(readiness("failed"), expecting)
    verdict.settle(readiness("passed"), CaseOptions())
    verdict.settle(readiness("passed"), expecting, expect_failures=False)
    with pytest.raises(pytest.fail.Exception, match="not ready"):
        verdict.settle(readiness("failed"), expecting, expect_failures=False)


def test_the_fix_of_a_case_error_is_the_fix_of_the_finding() -> None:
    """Where the error has none of its own, what a case returns is the fix."""
    (own,) = judged((linear()[0], torch.zeros(2))).findings
    assert (own.message, own.fix) == (
        "the example inputs are one tensor, not a tuple of inputs",
        "write (x,) instead of x",
    )
    (general,) = judged(None).findings
    assert general.fix == "return model.eval(), (example_input,)"


def test_the_fix_of_a_scenario_that_cannot_train_is_the_fix_of_the_finding() -> None:
    frozen = linear()
    frozen[0].requires_grad_(False)
    (finding,) = judged(frozen).findings
    assert finding.message == (
        "scenario plain could not train the case: nothing to train: no parameter of the model requires a gradient"
    )
    assert finding.fix.startswith('scenarios=["as_is"]')
