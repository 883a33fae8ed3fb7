"""From what a case function returned to a test outcome: judge it, then pass, fail or xfail."""

from __future__ import annotations

import pytest

from pytest_exportready.case import CaseError, CaseOptions, as_case
from pytest_exportready.failure import user_place
from pytest_exportready.finding import Finding, Rule
from pytest_exportready.readiness import Readiness, StageResult
from pytest_exportready.runner import Watch, judge
from pytest_exportready.text import exception_text

RETURNS_CASE = Rule(
    "ER101",
    "returns_a_case",
    "An export case returns (model, args), (model, args, kwargs) or an ExportCase.",
)
RAISES = Rule("ER102", "case_builds", "The function that builds an export case must not raise.")


def judge_returned(
    returned: object, options: CaseOptions, *, name: str, scenario: str, required: bool, watch: Watch
) -> Readiness:
    """The readiness of the case that a case function returned; what is no case fails at the stage ``case``."""
    try:
        case = as_case(returned)
    except CaseError as error:
        fix = "return model.eval(), (example_input,)"
        return _failed(name, scenario, RETURNS_CASE.error("", str(error), fix, stage="case"))
    if not required and (case.carries_training or case.stateful_calls):
        scenario = "as_is"  # further training would spoil what the user recorded
    return judge(case, options, name=name, scenario=scenario, required=required, watch=watch)


def raised(error: Exception, *, name: str, scenario: str) -> Readiness:
    """The readiness of a case whose function raised ``error``."""
    file, line = user_place(error)
    message = f"the case function raised {exception_text(error)}"
    fix = "mend the function that builds the case"
    return _failed(name, scenario, RAISES.error("", message, fix, file=file, line=line, stage="case"))


def settle(readiness: Readiness, options: CaseOptions) -> None:
    """Turn a readiness into pytest's outcome of the running test."""
    __tracebackhide__ = True
    expected = options.xfail_stage
    if expected and readiness.failed_stage == expected and readiness.outcome == "failed":
        pytest.xfail(f"known to fail at {expected}: {options.reason}")
    if expected:
        went = f"failed at {readiness.failed_stage}" if readiness.failed_stage else "passed every stage"
        pytest.fail(f"expected to fail at {expected} ({options.reason}), but it {went}{_lines(readiness)}", pytrace=False)
    if not readiness.ready:
        pytest.fail(f"not ready, failed at {readiness.failed_stage}{_lines(readiness)}", pytrace=False)


def _lines(readiness: Readiness) -> str:
    infra = [f"{s.name}: {s.reason}" for s in readiness.stages if s.outcome == "infra"]
    return "".join(f"\n{line}" for line in [*map(str, readiness.errors), *infra])


def _failed(name: str, scenario: str, finding: Finding) -> Readiness:
    stage = StageResult("case", "failed")
    return Readiness(name, scenario, (stage,), (finding,))
