from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest
from nights import compared, failed, night, other, passed, states

from pytest_exportready.case.readiness import StageResult
from pytest_exportready.report.nightly.compare import compare
from pytest_exportready.report.nightly.comparison import FailOn
from pytest_exportready.report.nightly.expected import Expectation
from pytest_exportready.report.nightly.night import Night
from pytest_exportready.report.run import TestResult

GREEN = [passed()]
KNOWN = Expectation("t.py::test_vit", "#1", "ana", date(2026, 12, 31))


@pytest.mark.parametrize(
    ("nights", "stable", "sentence"),
    [
        (
            [GREEN, [failed()]],
            GREEN,
            "Yes: 1 new cause, 1 cell, torch 2.16.0.dev20261127 -> dev20261128; the same commit passes on 2.15.0+cpu",
        ),
        (
            [[passed(), passed("a")], [failed(), other("a", "missing")]],
            None,
            "Yes: 1 new cause, 1 cell, torch 2.16.0.dev20261127 -> dev20261128; only torch changed; 1 cell did not run",
        ),
        ([GREEN, GREEN], None, "No: nothing new in 1 cell"),
        ([[failed()], [failed()]], None, "No: nothing new in 1 cell; 1 still failing"),
        ([[failed()], GREEN], None, "No: nothing new in 1 cell; 1 fixed"),
        ([GREEN, [other("vit", "infra")]], None, "Inconclusive: 1 cell did not run"),
        ([GREEN, [other("vit", "missing")]], None, "Inconclusive: 1 cell did not run"),
        ([GREEN, [other("vit", "skipped")]], None, "Inconclusive: 1 cell newly skipped"),
        ([GREEN, [other("vit", "xfailed")]], None, "Inconclusive: 1 cell newly skipped"),
        ([[passed(), passed("a")], [passed("a")]], None, "Inconclusive: 1 cell did not run"),
        ([GREEN, [passed(without="parity")]], None, "Inconclusive: 1 cell with stages that no longer run"),
        ([GREEN, []], None, "Inconclusive: 1 cell did not run"),
        ([[], [failed()]], None, "Yes: 1 new cause, 1 cell, your commit; the case is new"),
        ([[], []], None, "Inconclusive: no case was judged"),
    ],
)
def test_the_sentence(nights: list[list[TestResult]], stable: list[TestResult] | None, sentence: str) -> None:
    assert compared(*nights, stable=stable).verdict == sentence


def test_the_first_night_accuses_nobody() -> None:
    comparison = compare(Night("none", ()), night(0, failed()))
    assert comparison.verdict == "Inconclusive: there is no earlier night to compare with"
    assert comparison.status("new") == 2


@pytest.mark.parametrize(
    ("before", "tonight", "status"),
    [
        (GREEN, GREEN, {"new": 0, "any": 0, "never": 0}),
        (GREEN, [failed()], {"new": 1, "any": 1, "never": 0}),
        ([failed()], [failed()], {"new": 0, "any": 1, "never": 0}),
        (GREEN, [other("vit", "infra")], {"new": 2, "any": 2, "never": 0}),
        ([failed()], [failed(), other("a", "infra")], {"new": 2, "any": 1, "never": 0}),
    ],
)
def test_the_exit_status(before: list[TestResult], tonight: list[TestResult], status: dict[FailOn, int]) -> None:
    comparison = compared(before, tonight)
    assert {fail_on: comparison.status(fail_on) for fail_on in status} == status


def test_what_cannot_be_read_of_tonight_is_never_green() -> None:
    comparison = compare(night(1, passed()), night(0, passed(), unread=("b.xml: cut off",)))
    assert comparison.verdict == "Inconclusive: 1 file of tonight cannot be read"


def test_one_cause_of_many_cells_is_one_row() -> None:
    names = "abcdef"
    tonight = [failed(name, f"TypeError: [4, {index}] at 0x{index}") for index, name in enumerate(names)]
    comparison = compared([passed(name) for name in names], [*tonight[:5], failed("f", "KeyError: 'x'")])
    assert [(row.cause.message, len(row.changes)) for row in comparison.causes] == [
        ("TypeError: <shape> at <address>", 5),
        ("KeyError: 'x'", 1),
    ]


def test_another_failure_beside_a_known_one_is_not_hidden_by_it() -> None:
    both = failed(message="TypeError: no")
    more = failed(message="KeyError: new")
    assert both.readiness is not None
    assert more.readiness is not None
    record = replace(both.readiness, findings=both.readiness.findings + more.readiness.findings)
    tonight = TestResult(both.nodeid, "t", "test_vit", outcome="failed", readiness=record)
    comparison = compared([both], [both], [tonight])
    assert [cause.message for cause in comparison.changes[0].causes] == ["KeyError: new"]
    assert states(comparison) == {"vit": "changed"}


def test_a_failure_that_turns_back_to_an_earlier_cause_is_no_news() -> None:
    one, two = failed(message="one"), failed(message="two")
    assert states(compared(GREEN, [one], [two], [one])) == {"vit": "still"}


@pytest.mark.parametrize("nights", [2, 3, 6])
def test_since_when_a_case_fails(nights: int) -> None:
    (change,) = compared(GREEN, GREEN, *[[failed()]] * nights).changes
    assert change.since == f"2026-11-{28 - nights + 1}"


def test_a_fixed_case_whose_failing_stage_does_not_run_is_not_fixed() -> None:
    assert states(compared(GREEN, [failed()], [passed(without="export")])) == {"vit": "lost"}


def test_a_failure_that_is_ignored_now_says_so() -> None:
    result = failed()
    assert result.readiness is not None
    finding = result.readiness.findings[0].ignored_because("upstream")
    record = replace(
        result.readiness, stages=(StageResult("export", "passed"), StageResult("parity", "passed")), findings=(finding,)
    )
    tonight = TestResult(result.nodeid, "t", "test_vit", readiness=record)
    (change,) = compared(GREEN, [result], [tonight]).changes
    assert (change.state, change.note) == ("fixed", "ER401 is ignored: upstream")


def test_what_fails_at_every_retry_is_confirmed_however_flaky_it_was() -> None:
    turns = [GREEN, [failed()], GREEN, [failed()], GREEN]
    assert states(compared(*turns, [failed()])) == {"vit": "flaky"}
    assert states(compared(*turns, [failed(earlier=("no", "no"))])) == {"vit": "new"}


def test_a_flaky_case_fails_three_nights_running() -> None:
    turns = [GREEN, [failed()], GREEN, [failed()], GREEN]
    assert states(compared(*turns, [failed()], [failed()], [failed()])) == {"vit": "still"}


def test_a_steadily_flaky_case_comes_back_into_view() -> None:
    retried = [passed(earlier=("lost",))]
    assert not compared(GREEN, GREEN, GREEN, retried).changes[0].steady
    assert compared(retried, GREEN, retried, GREEN, retried).changes[0].steady


def test_two_verdicts_in_one_night_are_flaky() -> None:
    both = night(0, passed())
    both = Night("tonight", (*both.runs, *night(0, failed()).runs))
    (change,) = compare(night(1, passed()), both).changes
    assert (change.state, change.note) == ("flaky", "passed and failed in the same night")


def test_a_verdict_counts_before_a_lost_runner() -> None:
    again = night(0, other("vit", "infra"))
    again = Night("tonight", (*again.runs, *night(0, passed()).runs))
    assert states(compare(night(1, passed()), again)) == {"vit": "same"}


def test_expected_failures() -> None:
    assert states(compared(GREEN, [failed()], expected=[KNOWN])) == {"vit": "expected"}
    over = compared([failed()], GREEN, expected=[KNOWN])
    assert (over.over, over.unmatched) == ((KNOWN,), ())
    unknown = Expectation("t.py::test_gone", "#1", "ana", date(2026, 12, 31))
    assert compared(GREEN, GREEN, expected=[unknown]).unmatched == (unknown,)


def test_an_expired_expectation_counts_again() -> None:
    old = Expectation("t.py::test_vit", "#1", "ana", date(2026, 11, 27))
    (change,) = compared([failed()], [failed()], expected=[old]).changes
    assert (change.state, change.note) == ("new", "no longer expected: #1 (ana, until 2026-11-27)")


def test_a_case_that_was_deleted_is_reported_once() -> None:
    first = compared([passed(), passed("old")], GREEN)
    later = compared([passed(), passed("old")], GREEN, GREEN)
    assert states(first)["old"] == states(later)["old"] == "lost"
    assert first.verdict == "Inconclusive: 1 cell did not run"
    assert later.verdict == "No: nothing new in 1 cell"


def test_times_on_another_machine_are_not_compared() -> None:
    slow = [passed(pace=30.0)]
    nights = [night(days, passed()) for days in range(8, 1, -1)]
    same = compare(night(1, *slow), night(0, *slow), history=nights)
    other_gpu = compare(night(1, *slow, gpu="NVIDIA H200"), night(0, *slow, gpu="NVIDIA H200"), history=nights)
    assert (states(same), states(other_gpu)) == ({"vit": "slower"}, {"vit": "same"})


def test_a_cached_stage_has_no_time() -> None:
    fast = passed()
    assert fast.readiness is not None
    stages = tuple(replace(stage, cached="2026-11-01", seconds=99.0) for stage in fast.readiness.stages)
    cached = replace(fast, readiness=replace(fast.readiness, stages=stages))
    assert states(compared(*[GREEN] * 8, [cached], [cached])) == {"vit": "same"}


def test_exact_figures_are_compared_exactly() -> None:
    (change,) = compared([passed(nodes=100)], [passed(nodes=101)]).changes
    assert (change.state, change.exact) == ("same", (("export nodes", 100, 101),))


def test_a_stage_that_is_lost_while_a_case_fails_is_not_forgotten() -> None:
    assert states(compared(GREEN, [failed()], [passed(without="parity")])) == {"vit": "lost"}


def test_a_file_that_was_lost_last_night_does_not_make_its_cells_deleted() -> None:
    nights = [night(2, passed(), passed("a")), night(1, passed(), unread=("a.xml: cut off",)), night(0, passed())]
    assert compare(nights[1], nights[2], history=nights[:1]).verdict == "Inconclusive: 1 cell did not run"


def test_a_leg_that_is_lost_night_after_night_is_never_forgotten() -> None:
    def of(days: int, *legs: str) -> Night:
        return Night(
            f"n{days}", tuple(run for leg in legs for run in night(days, passed(), **{"exportready.leg": leg}).runs)
        )

    comparison = compare(of(1, "cpu"), of(0, "cpu"), history=[of(2, "cpu", "h200")])
    assert comparison.verdict == "Inconclusive: 1 cell did not run"
