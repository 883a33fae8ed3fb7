"""explained: errors say what is wrong and how to fix it in two fields, and in one sentence as text."""

from __future__ import annotations

import pickle

import pytest

from pytest_exportready.analysis.module.copying import CannotCopy
from pytest_exportready.case.explained import ExplainedError, with_fix
from pytest_exportready.case.export_case import CaseError
from pytest_exportready.case.scenario import CannotTrain
from pytest_exportready.stages._stage import StageInfrastructure
from pytest_exportready.transforms.collectives.groups import GroupNotNamed, named_group


@pytest.mark.parametrize("kind", [CaseError, CannotTrain, StageInfrastructure, GroupNotNamed])
def test_problem_and_fix_are_fields(kind: type[ExplainedError]) -> None:
    """Also where the texts hold the words that join them, and after pickling, as xdist and ranks do it."""
    error = kind("torch said: a. Fix: b", "write x. Fix: y is wrong")
    for same in (error, pickle.loads(pickle.dumps(error))):
        assert (same.problem, same.fix) == ("torch said: a. Fix: b", "write x. Fix: y is wrong")
        assert str(same) == "torch said: a. Fix: b. Fix: write x. Fix: y is wrong"


@pytest.mark.parametrize(
    ("problem", "fix", "text"),
    [
        ("a is 1", "write 2", "a is 1. Fix: write 2"),
        ("a is 1.", "write 2", "a is 1. Fix: write 2"),
        ("is a 1?", "write 2", "is a 1? Fix: write 2"),
        ("a is 1", "", "a is 1"),
    ],
)
def test_in_one_sentence(problem: str, fix: str, text: str) -> None:
    assert with_fix(problem, fix) == text


def test_errors_stay_what_callers_catch() -> None:
    """They are the built-in errors that they were before they had fields."""
    with pytest.raises(LookupError) as caught:
        named_group("nobody")
    assert isinstance(caught.value, GroupNotNamed)
    assert caught.value.fix == "Call `name_group('nobody', group)`."
    assert CannotCopy("net", "it is locked").fix == "Call `prepare_for_export(model, inplace=True)`."
