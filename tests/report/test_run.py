from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_exportready.case.finding import Finding
from pytest_exportready.case.readiness import Readiness, StageResult
from pytest_exportready.report.record import RECORD_LIMIT, to_text
from pytest_exportready.report.run import Outcome, Run, TestResult, merged

READY = Readiness("vit", "plain", (StageResult("export", "passed"),), ())
STUCK = Readiness("vit", "plain", (StageResult("export", "passed"), StageResult("parity", "failed")), ())


def one(name: str, outcome: Outcome = "passed", record: Readiness | None = READY, **more: str) -> TestResult:
    record = replace(record, case=name) if record else None
    return TestResult(f"test_a.py::{name}", "test_a", name, outcome=outcome, readiness=record, **more)


@pytest.mark.parametrize(
    ("results", "verdict"),
    [
        pytest.param([], "Inconclusive: no case ran", id="nothing"),
        pytest.param([one("a")], "Ready: 1 of 1 case passed every stage that ran", id="one"),
        pytest.param([one("a"), one("b")], "Ready: all 2 cases passed every stage that ran", id="all"),
        pytest.param(
            [one("a"), one("b", "skipped", None)],
            "Ready: 1 of 2 cases passed every stage that ran; 1 skipped",
            id="skipped",
        ),
        pytest.param([one("b", "skipped", None)], "Inconclusive: no case passed (1 skipped)", id="only skipped"),
        pytest.param([one("a"), one("b", "failed", STUCK)], "Not ready: 1 of 2 cases (b at parity)", id="failed"),
        pytest.param(
            [one("b", "failed", STUCK), one("c", "infra", None)],
            "Not ready: 1 of 2 cases (b at parity); 1 inconclusive",
            id="failed and infra",
        ),
        pytest.param(
            [one("a"), one("c", "infra", None)],
            "Inconclusive: 1 of 2 cases have no verdict (c)",
            id="infra",
        ),
        pytest.param(
            [one("a"), one("c", "missing", None)],
            "Inconclusive: 1 of 2 cases have no verdict (c)",
            id="missing",
        ),
        *(
            pytest.param(
                [one("a", "passed", record)],
                f"Inconclusive: 1 of 1 case passed without stage results ({where})",
                id=f"no proof: {why}",
            )
            for why, record, where in (
                ("no record", None, "a"),
                ("no stage", replace(READY, stages=()), "a"),
                ("all skipped", replace(READY, stages=(StageResult("export", "skipped"),)), "a"),
                ("the record says otherwise", STUCK, "a at parity"),
            )
        ),
        pytest.param(
            [one(name, "failed", STUCK) for name in "abcde"],
            "Not ready: 5 of 5 cases (a at parity, b at parity, c at parity and 2 more)",
            id="many",
        ),
    ],
)
def test_verdict(results: list[TestResult], verdict: str) -> None:
    run = Run(tuple(results))
    assert run.verdict == verdict
    assert run.verdict.lower().startswith(run.state)


def test_stages_stand_in_the_order_in_which_cases_meet_them() -> None:
    def through(name: str, *stages: str) -> TestResult:
        return one(name, "passed", Readiness(name, "plain", tuple(StageResult(s, "passed") for s in stages), ()))

    run = Run((through("a", "train", "export"), through("b", "train", "inspect", "export", "reload")))
    assert run.stages == ("train", "inspect", "export", "reload")


def test_a_cell_shows_the_worse_of_two_export_modes() -> None:
    stages = (StageResult("export", "passed", 0, "non-strict"), StageResult("export", "failed", 0, "strict"))
    assert one("a", "failed", Readiness("a", "plain", stages, ())).stage_outcomes == {"export": "failed"}


def test_labels_are_short_and_told_apart_where_they_clash() -> None:
    record = replace(READY, case="tests/test_a.py::test_vit[ddp]", scenario="ddp")
    results = [TestResult(f"tests/{m}.py::test_vit[ddp]", m, "test_vit[ddp]", readiness=record) for m in "ab"]
    assert results[0].label == "vit [ddp]"
    assert list(Run(tuple(results)).labels.values()) == ["vit [ddp] (a)", "vit [ddp] (b)"]


@pytest.mark.parametrize(
    ("name", "scenario", "label"),
    [
        ("test_mlp[ddp]", "ddp", "mlp [ddp]"),
        ("test_mlp[ddp-8]", "ddp", "mlp[8] [ddp]"),
        ("test_mlp[8-ddp]", "ddp", "mlp[8] [ddp]"),
        ("test_mlp[plain-a-b]", "plain", "mlp[a-b]"),
        ("test_mlp[ddp_amp-ddp]", "ddp_amp", "mlp[ddp] [ddp_amp]"),
        ("test_mlp[explain-8]", "plain", "mlp[explain-8]"),
    ],
)
def test_a_label_has_the_scenario_once(name: str, scenario: str, label: str) -> None:
    record = replace(READY, case=f"tests/test_a.py::{name}", scenario=scenario)
    assert TestResult(f"tests/test_a.py::{name}", "a", name, readiness=record).label == label


def test_names_that_are_cut_or_cleaned_alike_stay_distinct() -> None:
    names = ["x" * 3000, "x" * 3001, "a\x00", "a\x01", "\ud800", "\ud801"]
    assert len({one(name).name for name in names}) == len(names)
    assert all(len(one(name).name) <= 1000 for name in names)


def test_logs_keep_head_and_tail() -> None:
    output = one("a", output="first\n" + "\x1b[31m.\x1b[0m" * 4_000_000 + "\nlast").output
    assert len(output) <= 1024 * 1024
    assert output.startswith("first")
    assert output.endswith("last")
    assert "characters left out" in output


def test_a_record_that_is_too_large_keeps_its_first_findings_and_counts_the_rest() -> None:
    findings = tuple(Finding("ER1", "x", "error", f"layer{i}", "m" * 500, "f" * 500) for i in range(500))
    stage = StageResult("export", "failed", facts={"huge": ["y" * 1000] * 1000})
    result = one("a", "failed", Readiness("a", "plain", (stage,), findings))
    assert result.readiness is not None
    assert len(to_text(result.readiness)) <= RECORD_LIMIT
    assert result.readiness.findings[0].where == "layer0"
    assert result.left_out == 500 - len(result.readiness.findings) > 0
    assert replace(result) == result


def test_a_reproducer_is_whole_or_said_to_be_left_out() -> None:
    def kept(text: str, why_not: str = "") -> tuple[str, str]:
        record = one("a", record=replace(READY, reproducer=text, no_reproducer=why_not)).readiness
        assert record is not None
        return record.reproducer, record.no_reproducer

    assert kept("import torch\n\nprint(1)\n") == ("import torch\n\nprint(1)\n", "")
    assert kept("# none: a comment") == ("# none: a comment", "")
    assert kept("\ud800\x00\x1b[31m") == ("\ufffd\ufffd", "")
    assert kept("x = 1\n" * 5_000) == ("", "it is too long for a report")
    assert kept("", "it cannot\nbe found") == ("", "it cannot be found")


def test_merging_takes_the_worst_of_each_case_and_tells_differences() -> None:
    first = Run((one("a"), one("b", "failed", STUCK)), {"torch": "2.13", "os": "Linux"}, "2026-02-01", "h1", 1)
    second = Run((one("a", "failed", STUCK), one("b")), {"torch": "2.14", "os": "Linux"}, "2026-01-01", "h2", 2)
    run = merged([first, second])
    assert [result.outcome for result in run.results] == ["failed", "failed"]
    assert run.properties == {"torch": "2.13 | 2.14", "os": "Linux"}
    assert (run.timestamp, run.hostname, run.seconds) == ("2026-01-01", "h1, h2", 3)
