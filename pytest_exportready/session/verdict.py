"""From what a case function returned or raised to a test outcome: judge it, then pass, fail or xfail."""

from __future__ import annotations

import unittest
from typing import TYPE_CHECKING, Any

import pytest
import torch

from pytest_exportready.analysis.source.user_frames import user_place
from pytest_exportready.case.export_case import CaseError, as_case
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.options import CaseOptions
from pytest_exportready.case.readiness import Readiness, StageResult
from pytest_exportready.case.sanitize import exception_text
from pytest_exportready.judge.judge import OnExport, judge
from pytest_exportready.judge.stage_loop import Watch
from pytest_exportready.session.marker import PROBLEM

if TYPE_CHECKING:
    from pytest_exportready.analysis.execution.trial import ResultCache
    from pytest_exportready.session.ranks import Together

RETURNS_CASE = Rule(
    "ER101",
    "returns_a_case",
    "An export case returns (model, args), (model, args, kwargs) or an ExportCase.",
)
RAISES = Rule("ER102", "case_builds", "The function that builds an export case must not raise.")
MISDECLARED = Rule(
    "ER106",
    "markers_understood",
    "The markers of a case have arguments that exist, with values that are accepted and do not contradict each other.",
)

FAULTS = (Exception, SystemExit, pytest.fail.Exception)
PYTESTS_OWN = (pytest.skip.Exception, pytest.xfail.Exception, pytest.exit.Exception, unittest.SkipTest)
"""Of those, what pytest itself gives a meaning to: no fault of the case."""


def judge_returned(
    returned: object,
    options: CaseOptions,
    *,
    name: str,
    scenario: str,
    required: bool,
    watch: Watch,
    on_export: OnExport = lambda trial: (),
    ranks: Together | None = None,
    cache: ResultCache | None = None,
) -> Readiness:
    """The readiness of what a case function returned; what is no case fails at the stage ``case``."""
    try:
        case = as_case(returned)
    except CaseError as error:
        fix = error.fix or "return model.eval(), (example_input,)"
        return no_case(error.problem, fix, name=name, scenario=scenario)
    if not required and (case.carries_training or case.stateful_calls):
        scenario = "as_is"  # further training would spoil what the user recorded
    how: dict[str, Any] = {"cache": cache}
    how |= {} if ranks is None else {"lead": ranks.lead, "rank_timeout": ranks.seconds}
    return judge(
        case, options, name=name, scenario=scenario, required=required, watch=watch, on_export=on_export, **how
    )


def no_case(message: str, fix: str, *, name: str, scenario: str) -> Readiness:
    """The readiness of a case function that gives no case."""
    return _failed(name, scenario, RETURNS_CASE.error("", message, fix, stage="case"))


def misdeclared(item: pytest.Item, scenario: str) -> Readiness:
    """Return the readiness of a case that has a wrong marker."""
    problem, fix = item.stash[PROBLEM]
    place: dict[str, Any] = {"file": str(item.path), "line": (item.location[1] or 0) + 1, "stage": "case"}
    finding = MISDECLARED.error("", problem, fix or "Correct the arguments of the marker `export_ready`.", **place)
    return _failed(item.nodeid, scenario, finding)


def raised(error: BaseException, *, name: str, scenario: str) -> Readiness:
    """The readiness of a case whose function raised ``error``: the case's fault, unless memory ran out."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return _infra(name, scenario, f"no memory left to build the case: {exception_text(error)}")
    file, line = user_place(error)
    message = f"the case function raised {exception_text(error)}"
    fix = "mend the function that builds the case"
    return _failed(name, scenario, RAISES.error("", message, fix, file=file, line=line, stage="case"))


def crashed(error: BaseException, *, name: str, scenario: str) -> Readiness:
    """The readiness of a case that could not be judged because judging it raised ``error``."""
    reason = f"judging the case failed, which is no verdict on it: {exception_text(error)}"
    return _infra(name, scenario, reason)


def settle(readiness: Readiness, options: CaseOptions, *, expect_failures: bool = True) -> None:
    """Turn a readiness into pytest's outcome of the running test.

    expect_failures: False for ``--runxfail``, where the marker's xfail_stage counts for nothing.
    """
    __tracebackhide__ = True
    expected = options.xfail_stage if expect_failures else ""
    if expected and readiness.failed_stage == expected and readiness.outcome == "failed":
        pytest.xfail(f"known to fail at {expected}: {options.reason}")
    if expected:
        went = _went(readiness) if readiness.failed_stage else "passed every stage"
        message = f"expected to fail at {expected} ({options.reason}), but it {went}{_lines(readiness)}"
        pytest.fail(message, pytrace=False)
    if not readiness.ready:
        pytest.fail(f"not ready, {_went(readiness)}{_lines(readiness)}", pytrace=False)


def _went(readiness: Readiness) -> str:
    """``failed at inspect: batchnorm_frozen, no_training_mode``."""
    word = "failed" if readiness.outcome == "failed" else "could not be judged"
    names = ", ".join(dict.fromkeys(finding.name for finding in readiness.errors))
    return f"{word} at {readiness.failed_stage}{': ' if names else ''}{names}"


def _lines(readiness: Readiness) -> str:
    infra = [f"{s.name}: {s.reason}" for s in readiness.stages if s.outcome == "infra"]
    return "".join(f"\n{line}" for line in [*map(str, readiness.errors), *infra])


def _failed(name: str, scenario: str, finding: Finding) -> Readiness:
    return Readiness(name, scenario, (StageResult("case", "failed"),), (finding,))


def _infra(name: str, scenario: str, reason: str) -> Readiness:
    return Readiness(name, scenario, (StageResult("case", "infra", reason=reason),), ())
