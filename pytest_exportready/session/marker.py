"""Read the marker ``export_ready`` of a collected item."""

from __future__ import annotations

import inspect
import unittest
from typing import Any

import pytest

from pytest_exportready.case.export_case import CaseError
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.options import ACCEPTED, CaseOptions, case_options
from pytest_exportready.case.rules import all_rules
from pytest_exportready.case.sanitize import exception_text
from pytest_exportready.case.scenario import scenario_names
from pytest_exportready.session.options import MARKER

RULE = Rule(
    "ER106",
    "markers_understood",
    """The arguments of a case's markers exist, have accepted values and do not contradict each other.

    Why it matters:
        A misspelled argument would otherwise be ignored, and the case would pass without what it asks for.

    Severity:
        error: the marker `export_ready`, or the marker of a plugin that runs the case, such as `world`, is wrong.
    """,
)

CASE_OPTIONS = pytest.StashKey[CaseOptions]()
MARKER_FINDING = pytest.StashKey[Finding]()
"""The finding of a case that cannot run because one of its markers is wrong."""


def arguments_of(item: pytest.Item) -> dict[str, Any]:
    """Return the marker's arguments, merged from module, class, function and parameter; the closest one counts."""
    marks = [*reversed(list(item.iter_markers(MARKER))), *_marks_of_parameter(item)]
    return {name: value for mark in marks for name, value in mark.kwargs.items()}


def _marks_of_parameter(item: pytest.Item) -> list[pytest.Mark]:
    callspec = getattr(item, "callspec", None)
    return [mark for mark in callspec.marks if mark.name == MARKER] if callspec else []


def declared_at(item: pytest.Item) -> dict[str, Any]:
    """Return the file and line of a case function, as fields of a finding."""
    return {"file": str(item.path), "line": (item.location[1] or 0) + 1}


def take_options(item: pytest.Item) -> None:
    """Store the options that the marker gives, or a finding if a marker of the case is wrong."""
    wrong = item.ihook.pytest_exportready_marker_problem(item=item)
    place = {**declared_at(item), "stage": "case"}
    fix = f"Correct the arguments of the marker `{MARKER}`."
    try:
        options = _options_of(item)
    except Exception as error:
        problem, advice = (error.problem, error.fix) if isinstance(error, CaseError) else (exception_text(error), "")
        finding = RULE.error(f"@{MARKER}", problem, advice or fix, **place)
    else:
        if wrong is None:
            item.stash[CASE_OPTIONS] = options
            return
        finding = RULE.error("", *wrong, **place)
    item.stash[MARKER_FINDING] = finding
    if isinstance(item, pytest.Function):
        item.fixturenames = []  # a case that cannot run sets up nothing


def _options_of(item: pytest.Item) -> CaseOptions:
    from pytest_exportready.stages import all_stages

    cls = getattr(item, "cls", None)
    if not isinstance(item, pytest.Function) or (cls and issubclass(cls, unittest.TestCase)):
        raise CaseError(
            "The marker is on an item that is not a function or a method of a plain class.",
            "Move the case out of the `unittest.TestCase`.",
        )
    if any(mark.args for mark in item.iter_markers(MARKER)):
        raise CaseError("The marker has a positional argument.", f"Use keyword arguments: {', '.join(ACCEPTED)}.")
    if any("scenarios" in mark.kwargs for mark in _marks_of_parameter(item)):
        raise CaseError(
            "`scenarios` is given for one parameter of the function.",
            "Pass `scenarios` to the marker of the function.",
        )
    if inspect.isgeneratorfunction(item.obj):
        raise CaseError("The function is a generator.", "Replace `yield` with `return`.")
    return case_options(arguments_of(item), scenarios=scenario_names(), stages=all_stages(), codes=all_rules())
