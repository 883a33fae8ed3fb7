"""The summary answers first, fits, and carries no markup of strangers."""

from __future__ import annotations

import pytest

from pytest_exportready.case.finding import Finding
from pytest_exportready.case.readiness import Readiness, StageResult
from pytest_exportready.report.github import summary as module
from pytest_exportready.report.github.summary import summary
from pytest_exportready.report.run import Run, TestResult


def failed(name: str, message: str = "branches on values", file: str = "net.py") -> TestResult:
    finding = Finding(
        "ER402", "exportable", "error", "forward", message, "torch.where(a, b, c)", file, 7, stage="export"
    )
    record = Readiness(name, "plain", (StageResult("export", "failed"),), (finding,))
    return TestResult(f"t.py::{name}", "t", name, outcome="failed", message="no", readiness=record)


def passed(name: str) -> TestResult:
    return TestResult(
        f"t.py::{name}", "t", name, readiness=Readiness(name, "plain", (StageResult("export", "passed"),), ())
    )


def test_the_verdict_stands_first_then_causes_then_cases() -> None:
    run = Run((passed("a"), failed("b"), failed("c")), properties={"torch": "2.14.1"})
    text = summary(run)
    first, *rest = text.splitlines()
    assert first == "### Not ready: `2 of 3 cases (b at export, c at export)`"
    assert "`torch` `2.14.1`" in text
    cause = next(line for line in rest if "branches on values" in line)
    assert "| 2 | `b`, `c` |" in cause
    problem = "`forward, net.py:7: [ER402 exportable] branches on values`"
    assert f"| `b` | export | {problem} | `torch.where(a, b, c)` |" in rest


def test_a_green_run_is_one_line() -> None:
    assert summary(Run((passed("a"),))) == "### Ready: `1 of 1 case passed every stage that ran`\n"


@pytest.mark.parametrize("limit", [500, 5_000, 900_000])
def test_it_always_fits_and_says_what_was_left_out(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(module, "LIMIT", limit)
    run = Run(
        tuple(
            failed(f"case{number}", "\N{SNOWMAN}" * 400 + f" of kind {chr(97 + number % 26)}x") for number in range(500)
        )
    )
    text = summary(run)
    assert len(text.encode()) <= limit
    assert text.startswith("### Not ready:")
    assert ("does not fit" in text) == (limit < 900_000)


def test_hostile_text_stays_text() -> None:
    run = Run((failed("a|b`c", "@everyone | <script>\n# big"),), properties={"@all": "`x`"})
    for line in summary(run).splitlines():
        assert line.count("|") in (0, 4, 5)
    assert "\n# big" not in summary(run)
