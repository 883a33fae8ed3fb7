"""What the marker ``export_ready`` says about a collected item."""

from __future__ import annotations

import inspect
import unittest
from typing import Any

import pytest

from pytest_exportready.case.export_case import CaseError
from pytest_exportready.case.options import ACCEPTED, CaseOptions, case_options
from pytest_exportready.case.rules import all_rules
from pytest_exportready.case.sanitize import exception_text
from pytest_exportready.case.scenario import scenario_names
from pytest_exportready.session.options import MARKER

CASE_OPTIONS = pytest.StashKey[CaseOptions]()
PROBLEM = pytest.StashKey[tuple[str, str]]()
"""Of a case that cannot run: what is wrong with one of its markers, and how to fix it; empty if that is not known."""


def arguments_of(item: pytest.Item) -> dict[str, Any]:
    """The marker's arguments: those of module, class, function and parameter together, the closest counts."""
    marks = [*reversed(list(item.iter_markers(MARKER))), *_marks_of_parameter(item)]
    return {name: value for mark in marks for name, value in mark.kwargs.items()}


def _marks_of_parameter(item: pytest.Item) -> list[pytest.Mark]:
    callspec = getattr(item, "callspec", None)
    return [mark for mark in callspec.marks if mark.name == MARKER] if callspec else []


def take_options(item: pytest.Item) -> None:
    """Store the options that the marker gives, or what is wrong with the markers of the case."""
    problem = item.ihook.pytest_exportready_marker_problem(item=item)
    try:
        options = _options_of(item)
    except Exception as error:
        reason, fix = (error.problem, error.fix) if isinstance(error, CaseError) else (exception_text(error), "")
        problem = f"export_ready: {reason}", fix
    else:
        if not problem:
            item.stash[CASE_OPTIONS] = options
            return
    item.stash[PROBLEM] = problem
    if isinstance(item, pytest.Function):
        item.fixturenames = []  # a case that cannot run sets up nothing


def _options_of(item: pytest.Item) -> CaseOptions:
    from pytest_exportready.stages import all_stages

    cls = getattr(item, "cls", None)
    if not isinstance(item, pytest.Function) or (cls and issubclass(cls, unittest.TestCase)):
        raise CaseError("belongs on a function or a method of a plain class, not of a unittest.TestCase")
    if any(mark.args for mark in item.iter_markers(MARKER)):
        accepted = ", ".join(ACCEPTED)
        raise CaseError(f"takes keyword arguments only, got a positional one. Accepted: {accepted}")
    if any("scenarios" in mark.kwargs for mark in _marks_of_parameter(item)):
        raise CaseError("scenarios belongs on the function, not on one of its parameters")
    if inspect.isgeneratorfunction(item.obj):
        raise CaseError("the function is a generator", "write return instead of yield")
    return case_options(arguments_of(item), scenarios=scenario_names(), stages=all_stages(), codes=all_rules())
