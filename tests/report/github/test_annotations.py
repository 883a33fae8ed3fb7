"""At most ten of a kind, the verdict first, and nothing that a message holds becomes a command."""

from __future__ import annotations

import pytest
from test_summary import failed, passed

from pytest_exportready.case.finding import Finding
from pytest_exportready.case.readiness import Readiness, StageResult
from pytest_exportready.report.github.annotations import LIMIT, commands
from pytest_exportready.report.run import Run, TestResult


def warned(number: int) -> TestResult:
    finding = Finding("ER305", "w", "warning", "", f"warning {number}", "x", "net.py", number + 1)
    record = Readiness("a", "plain", (StageResult("export", "passed"),), (finding,))
    return TestResult(f"t.py::{number}", "t", str(number), readiness=record)


def test_the_verdict_and_then_the_places() -> None:
    verdict, place = commands(Run((passed("a"), failed("b"))))
    assert verdict == "::error title=export readiness::Not ready: 1 of 2 cases (b at export)"
    assert place == (
        "::error file=net.py,line=7,title=ER402 exportable (b)::"
        "forward, net.py:7: branches on values. Fix: torch.where(a, b, c)"
    )


def test_green_is_a_notice() -> None:
    assert commands(Run((passed("a"),))) == [
        "::notice title=export readiness::Ready: 1 of 1 case passed every stage that ran"
    ]


def test_no_more_than_github_shows() -> None:
    many = [failed(f"c{number}", f"kind {'x' * number}") for number in range(30)]
    lines = commands(Run((*many, *map(warned, range(30)))))
    assert sum(line.startswith("::error") for line in lines) == LIMIT
    assert sum(line.startswith("::warning") for line in lines) == LIMIT


def test_one_place_is_reported_once() -> None:
    assert len(commands(Run(tuple(failed(f"c{number}") for number in range(30))))) == 2


@pytest.mark.parametrize("text", ["a\n::error::b", "a\r\n::set-output name=x::y", "100% \x1b[0m", "a,b:c"])
def test_no_message_name_or_path_becomes_a_command(text: str) -> None:
    for line in commands(Run((failed(text, text, file=text),))):
        assert "\n" not in line
        assert "\r" not in line
        assert line.startswith("::error ")
        properties = line.removeprefix("::error ").partition("::")[0]
        assert all(part.partition("=")[0] in ("file", "line", "title") for part in properties.split(","))
