"""Judge what a case function returned or raised, and turn the readiness into a test outcome."""

from __future__ import annotations

import unittest
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from pytest_exportready.analysis.execution.machine_faults import MachineFault, machine_fault
from pytest_exportready.analysis.source.user_frames import user_place
from pytest_exportready.case.explained import with_fix
from pytest_exportready.case.export_case import CaseError, as_case
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.options import CaseOptions
from pytest_exportready.case.readiness import Readiness, StageResult
from pytest_exportready.case.sanitize import exception_text
from pytest_exportready.judge.judge import OnExport, judge
from pytest_exportready.judge.move_case import moved
from pytest_exportready.judge.stage_loop import Watch
from pytest_exportready.session.marker import MARKER_FINDING

if TYPE_CHECKING:
    from pytest_exportready.analysis.execution.trial import ResultCache
    from pytest_exportready.session.ranks import Together

RETURNS_CASE = Rule(
    "ER101",
    "returns_a_case",
    """A case function returns `(model, args)`, `(model, args, kwargs)` or an `ExportCase`.

    Why it matters:
        Without a module and a tuple of example inputs there is nothing to export.

    Severity:
        error: the function returns anything else, or is `async`.
    """,
)
BUILDS = Rule(
    "ER102",
    "case_builds",
    """A case function does not raise.

    Why it matters:
        A case that cannot be built is not exported, so nothing is known about its model.

    Severity:
        error: the function raised an exception, or called `pytest.fail` or `sys.exit`.

    Not reported:
        `pytest.skip` and `pytest.xfail`. Running out of memory is an infrastructure error.
    """,
)

CASE_ERRORS = (Exception, SystemExit, pytest.fail.Exception, MachineFault)
PYTEST_OUTCOMES = (pytest.skip.Exception, pytest.xfail.Exception, pytest.exit.Exception, unittest.SkipTest)
"""Subclasses of CASE_ERRORS that have a meaning for pytest: they are not errors of the case."""


def judge_returned(
    returned: object,
    options: CaseOptions,
    *,
    name: str,
    scenario: str,
    required: bool,
    declared: Mapping[str, Any],
    watch: Watch,
    on_export: OnExport = lambda trial: (),
    ranks: Together | None = None,
    cache: ResultCache | None = None,
    device: str = "",
    across: str = "",
) -> Readiness:
    """Return the readiness of the returned case; an object that is not a case fails at the stage ``case``.

    Args:
        declared: File and line of the case function.
        device: Where the case is moved to; empty if it stays where it is.
        across: Another device on which the program is compared, unless the case names its ``target_device``.
    """
    try:
        case = as_case(returned)
        if device:
            case = moved(case, torch.device(device))
        if across and case.target_device is None:
            case = replace(case, target_device=across)
    except CaseError as error:
        fix = error.fix or "Return `model.eval(), (example_input,)`."
        return no_case(error.problem, fix, name=name, scenario=scenario, declared=declared)
    if not required and (case.carries_training or case.stateful_calls):
        scenario = "as_is"  # further training would spoil what the user recorded
    how: dict[str, Any] = {"cache": cache}
    how |= {} if ranks is None else {"lead": ranks.lead, "rank_timeout": ranks.seconds}
    return judge(
        case, options, name=name, scenario=scenario, required=required, watch=watch, on_export=on_export, **how
    )


def no_case(message: str, fix: str, *, name: str, scenario: str, declared: Mapping[str, Any]) -> Readiness:
    """Return the readiness of a case function, declared at a file and line, that does not return a case."""
    return _failed(name, scenario, RETURNS_CASE.error("", message, fix, **declared, stage="case"))


def misdeclared(item: pytest.Item, scenario: str) -> Readiness:
    """Return the readiness of a case that has a wrong marker."""
    return _failed(item.nodeid, scenario, item.stash[MARKER_FINDING])


def raised(error: BaseException, *, name: str, scenario: str) -> Readiness:
    """Return the readiness of a case whose function raised ``error``, which may be the machine's fault."""
    if (fault := machine_fault(error)) is not None:
        return _infra(name, scenario, with_fix(f"while the case was built, {fault.problem}", fault.fix))
    file, line = user_place(error)
    message = f"The case function raised {exception_text(error)}."
    fix = "Correct the case function."
    return _failed(name, scenario, BUILDS.error("", message, fix, file=file, line=line, stage="case"))


def crashed(error: BaseException, *, name: str, scenario: str) -> Readiness:
    """Return the readiness of a case that could not be judged because ``error`` was raised outside of the case."""
    if (fault := machine_fault(error)) is not None:
        return _infra(name, scenario, with_fix(fault.problem, fault.fix))
    return _infra(name, scenario, f"judging the case raised {exception_text(error)}")


def settle(readiness: Readiness, options: CaseOptions, *, expect_failures: bool = True) -> None:
    """Turn a readiness into pytest's outcome of the running test.

    Args:
        expect_failures: False for ``--runxfail``, which ignores the marker's xfail_stage.
    """
    __tracebackhide__ = True
    expected = options.xfail_stage if expect_failures else ""
    if expected and readiness.failed_stage == expected and readiness.outcome == "failed":
        pytest.xfail(f"known to fail at {expected}: {options.reason}")
    if expected:
        actual = _failure(readiness) if readiness.failed_stage else "passed every stage"
        message = f"expected to fail at {expected} ({options.reason}), but it {actual}{_lines(readiness)}"
        pytest.fail(message, pytrace=False)
    if not readiness.ready:
        pytest.fail(f"not ready, {_failure(readiness)}{_lines(readiness)}", pytrace=False)


def _failure(readiness: Readiness) -> str:
    """Return text such as ``failed at inspect: batchnorm_frozen, no_training_mode``."""
    word = "failed" if readiness.outcome == "failed" else "had an infrastructure error"
    names = ", ".join(dict.fromkeys(finding.name for finding in readiness.errors))
    return f"{word} at {readiness.failed_stage}{': ' if names else ''}{names}"


def _lines(readiness: Readiness) -> str:
    infra = [f"{s.name}: {s.reason}" for s in readiness.stages if s.outcome == "infra"]
    return "".join(f"\n{line}" for line in [*map(str, readiness.errors), *infra])


def _failed(name: str, scenario: str, finding: Finding) -> Readiness:
    return Readiness(name, scenario, (StageResult("case", "failed"),), (finding,))


def _infra(name: str, scenario: str, reason: str) -> Readiness:
    return Readiness(name, scenario, (StageResult("case", "infra", reason=reason),), ())
