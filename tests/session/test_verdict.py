from __future__ import annotations

import unittest

import pytest
import torch
from torch import nn

from pytest_exportready.case.export_case import CaseError, ExportCase, as_case
from pytest_exportready.case.options import CaseOptions
from pytest_exportready.case.readiness import Readiness, StageResult
from pytest_exportready.session import verdict

ONLY_EXPORT = CaseOptions(stages=("export",))
DECLARED = {"file": "test_models.py", "line": 7}


def judged(returned: object, options: CaseOptions = ONLY_EXPORT, required: bool = False) -> Readiness:
    stages: list[str] = []
    return verdict.judge_returned(
        returned, options, name="case", scenario="plain", required=required, declared=DECLARED, watch=stages.append
    )


def linear() -> tuple[nn.Module, tuple[torch.Tensor]]:
    return nn.Linear(3, 2).eval(), (torch.randn(4, 3),)


@pytest.mark.parametrize(
    "returned",
    [
        None,
        linear()[0],
        torch.zeros(2),
        "ab",
        [*linear(), {}, 4],
        (linear()[0], torch.zeros(2)),
        (3, (torch.zeros(2),)),
        (*linear(), [3]),
        (nn.Linear, (torch.zeros(2),)),
    ],
    ids=["nothing", "module", "tensor", "text", "list of 4", "bare tensor", "number", "keywords in a list", "class"],
)
def test_an_object_that_is_not_a_case_is_a_finding(returned: object) -> None:
    """Its message and fix are those of the case error, or the fix says what to return."""
    readiness = judged(returned)
    assert (readiness.outcome, readiness.failed_stage) == ("failed", "case")
    (finding,) = readiness.findings
    with pytest.raises(CaseError) as raised:
        as_case(returned)
    general = "Return `model.eval(), (example_input,)`."
    assert (finding.file, finding.line) == ("test_models.py", 7)
    assert (finding.code, finding.message, finding.fix) == ("ER101", raised.value.problem, raised.value.fix or general)


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
    assert finding.message == "The case function raised ValueError: no\ufffd \ufffd weights."


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory")])
def test_out_of_memory_is_an_infrastructure_error(error: Exception) -> None:
    readiness = verdict.raised(error, name="case", scenario="plain")
    assert (readiness.outcome, readiness.failed_stage, readiness.findings) == ("infra", "case", ())


def test_outcomes_of_pytest_are_not_errors_of_the_case() -> None:
    for outcome in (pytest.skip.Exception, pytest.xfail.Exception, unittest.SkipTest):
        assert issubclass(outcome, verdict.PYTEST_OUTCOMES)
    assert not issubclass(pytest.fail.Exception, verdict.PYTEST_OUTCOMES)
    assert issubclass(pytest.fail.Exception, verdict.CASE_ERRORS)


def readiness(outcome: str, stage: str = "export") -> Readiness:
    if outcome == "infra":
        return Readiness("case", "plain", (StageResult(stage, "infra", reason="no disk"),), ())
    if outcome == "failed":
        finding = verdict.RETURNS_CASE.error("w", "is wrong", "Fix it.", stage=stage)
        return Readiness("case", "plain", (StageResult(stage, "failed"),), (finding,))
    return Readiness("case", "plain", (StageResult(stage, "passed"),), ())


@pytest.mark.parametrize(
    ("given", "expected", "message"),
    [
        (
            readiness("failed"),
            "",
            "not ready, failed at export: returns_a_case\nw: [ER101 returns_a_case] is wrong*",
        ),
        (readiness("infra"), "", "not ready, had an infrastructure error at export\nexport: no disk"),
        (readiness("passed"), "export", "expected to fail at export (why), but it passed every stage"),
        (
            readiness("failed", "parity"),
            "export",
            "expected to fail at export (why), but it failed at parity: *",
        ),
        (
            readiness("infra"),
            "export",
            "expected to fail at export (why), but it had an infrastructure error at export*",
        ),
    ],
    ids=["failed", "infra", "passes", "elsewhere", "infra_is_not_expected"],
)
def test_settle_fails(given: Readiness, expected: str, message: str) -> None:
    with pytest.raises(pytest.fail.Exception) as raised:
        verdict.settle(given, CaseOptions(xfail_stage=expected, reason="why"))
    assert raised.type is not pytest.xfail.Exception
    lines = pytest.LineMatcher(str(raised.value).splitlines())
    lines.fnmatch_lines([line.replace("[", "[[]") for line in message.splitlines()])


def test_settle_xfails_and_passes() -> None:
    expecting = CaseOptions(xfail_stage="export", reason="why")
    with pytest.raises(pytest.xfail.Exception, match=r"known to fail at export: why"):
        verdict.settle(readiness("failed"), expecting)
    verdict.settle(readiness("passed"), CaseOptions())
    verdict.settle(readiness("passed"), expecting, expect_failures=False)
    with pytest.raises(pytest.fail.Exception, match="not ready"):
        verdict.settle(readiness("failed"), expecting, expect_failures=False)


def test_the_fix_of_a_scenario_that_cannot_train_is_the_fix_of_the_finding() -> None:
    frozen = linear()
    frozen[0].requires_grad_(False)
    (finding,) = judged(frozen).findings
    assert "requires a gradient" in finding.problem
    assert 'scenarios=["as_is"]' in finding.fix
