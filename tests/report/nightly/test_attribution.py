from __future__ import annotations

import pytest

from pytest_exportready.report.cause import FailureCause
from pytest_exportready.report.nightly.attribution import Arm, attribute
from pytest_exportready.report.nightly.observation import observed
from pytest_exportready.report.run import TestResult

WAS = {"torch": "2.16.0.dev1", "commit": "a", "driver": "550"}
CAUSE = FailureCause("", "", "broken")


def arm(torch: str, outcome: str, commit: str = "a", message: str = "broken") -> Arm:
    result = TestResult("t.py::x", "t", "x", outcome=outcome, message=message)  # type: ignore[arg-type]
    return Arm({"torch": torch, "commit": commit}, observed(result))


@pytest.mark.parametrize(
    ("moves", "stable", "last", "whose"),
    [
        ({"torch": "2.16.0.dev2"}, "passed", None, "torch"),
        ({"torch": "2.16.0.dev2"}, "passed", "passed", "torch"),
        ({"torch": "2.16.0.dev2", "driver": "560"}, "passed", None, "torch"),
        ({"torch": "2.16.0.dev2"}, None, None, "torch"),
        ({"torch": "2.16.0.dev2"}, "failed", "passed", "torch"),
        ({"torch": "2.16.0.dev2", "commit": "b"}, "failed", None, "yours"),
        ({"torch": "2.16.0.dev2", "commit": "b"}, "failed", "failed", "yours"),
        ({"torch": "2.16.0.dev2", "commit": "b"}, "passed", "failed", "yours"),
        ({"torch": "2.16.0.dev2", "commit": "b"}, "passed", None, "torch"),
        ({"torch": "2.16.0.dev2", "commit": "b"}, None, None, "undecided"),
        ({"torch": "2.16.0.dev2", "commit": "b"}, "infra", None, "undecided"),
        ({"commit": "b"}, "failed", None, "yours"),
        ({"commit": "b"}, "passed", None, "yours"),
        ({"commit": "b"}, None, None, "yours"),
        ({"driver": "560"}, None, None, "environment"),
        ({"driver": "560"}, "passed", None, "environment"),
        ({"driver": "560"}, "failed", None, "environment"),
        ({"driver": "560", "torch": "2.16.0.dev2"}, "failed", None, "environment"),
        ({}, None, None, "environment"),
        ({}, "failed", None, "environment"),
    ],
)
def test_whose_it_is(moves: dict[str, str], stable: str | None, last: str | None, whose: str) -> None:
    now = {**WAS, **moves}
    arms = [
        arm(torch, outcome, now["commit"]) if outcome else None
        for torch, outcome in (("dev1", last), ("2.15.0", stable))
    ]
    assert attribute([CAUSE], WAS, now, arms).whose == whose


def test_an_arm_on_another_commit_says_nothing() -> None:
    now = {**WAS, "torch": "2.16.0.dev2", "commit": "b"}
    assert attribute([CAUSE], WAS, now, [arm("2.15.0", "passed", commit="a")]).whose == "undecided"


def test_an_arm_that_ran_under_tonights_torch_says_nothing() -> None:
    now = {**WAS, "commit": "b"}
    found = attribute([CAUSE], WAS, now, [arm(now["torch"], "failed", commit="b")])
    assert (found.whose, found.because) == ("yours", "only your commit changed")


def test_a_case_that_is_new_is_yours_unless_it_passes_elsewhere() -> None:
    assert attribute([CAUSE], None, WAS).whose == "yours"
    assert attribute([CAUSE], None, WAS, [arm("2.15.0", "failed")]).whose == "yours"
    assert attribute([CAUSE], None, WAS, [arm("2.15.0", "passed")]).whose == "torch"


def test_it_says_why() -> None:
    found = attribute([CAUSE], WAS, {**WAS, "torch": "2.16.0.dev2"}, [arm("2.15.0", "passed")])
    assert found.because == "the same commit passes on 2.15.0"
    assert [str(move) for move in found.moved] == ["torch 2.16.0.dev1 -> dev2"]
