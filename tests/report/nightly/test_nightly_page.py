from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from browser import Browser
from nights import compared, failed, night, other, passed

from pytest_exportready.case.finding import Finding
from pytest_exportready.case.readiness import Readiness, StageResult
from pytest_exportready.report import truncate
from pytest_exportready.report.junit import read_junit, write_junit
from pytest_exportready.report.nightly.compare import compare
from pytest_exportready.report.nightly.comparison import Comparison
from pytest_exportready.report.nightly.junit_results import as_run
from pytest_exportready.report.nightly.night import COMPARED, Night, read_night
from pytest_exportready.report.nightly.page import page, write_page
from pytest_exportready.report.nightly.terminal_lines import lines
from pytest_exportready.report.run import TestResult

HOSTILE = (
    "<script>window.ran = 1</script>",
    "</title></style></pre><img src=x onerror='window.ran = 1'>",
    "\"'><svg onload=window.ran=1>",
    "{{ 7 * 7 }}",
    "\ud800 \x00 \x1b[31mred \u202e",
    "x" * 5_000,
)


class Outline(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.words = ""
        self.feed(text)
        self.words = " ".join(self.words.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.words += f" {data}"


@pytest.fixture
def morning() -> Comparison:
    """One cell of each state."""
    names = ("still", "fixed", "same")
    quiet = [passed(name) for name in ("new", "lost", "infra", "slow", "flaky", *names)]
    before = [failed("still", "KeyError: 1") if one.name == "test_still" else one for one in quiet]
    before = [failed("fixed", "KeyError: 2") if one.name == "test_fixed" else one for one in before]
    slow = [passed("slow", pace=25.0) if one.name == "test_slow" else one for one in before]
    tonight = [
        failed("new"),
        other("infra", "infra", "CUDA out of memory"),
        passed("slow", pace=25.0),
        passed("flaky", earlier=("rank 1 lost",)),
        failed("still", "KeyError: 1"),
        passed("fixed"),
        passed("same", nodes=10),
    ]
    return compared(*[quiet] * 6, slow, tonight, stable=quiet)


def hostile(text: str) -> Comparison:
    finding = Finding(text, text, "error", text, text, text, text, 3, stage=text)
    record = Readiness(text, text, (StageResult(text, "failed", 1.0, text, text, {text: text}),), (finding,))
    bad = TestResult(text, text, text, text, 1, outcome="failed", message=text, text=text, readiness=record)
    good = replace(bad, outcome="passed", readiness=replace(record, stages=(StageResult(text, "passed"),), findings=()))
    skipped = replace(bad, nodeid=f"{text}2", outcome="skipped", readiness=None)
    properties = {"torch": text, "torch.git_version": text, "commit": text, "gpu": text}
    before = night(1, good, replace(good, nodeid=f"{text}2"), **dict.fromkeys(properties, f"{text} 1"))
    return compare(before, replace(night(0, bad, skipped, **properties), unread=(truncate.line(text),)))


def test_the_sentence_comes_first_then_what_moved(morning: Comparison) -> None:
    words = Outline(page(morning)).words.partition("Is anything new failing tonight?")[2].strip()
    assert words.startswith(morning.verdict)
    assert words.index("What changed since 2026-11-27") < words.index("New causes 1") < words.index("Still failing 1")
    assert "2.16.0.dev20261127+cpu → 2.16.0.dev20261128+cpu" in words


def test_a_cause_tells_whose_it_is_and_what_to_type(morning: Comparison) -> None:
    words = Outline(page(morning)).words
    for expected in (
        "ER401 at export torch 1 cell TypeError: no models/net.py · the same commit passes on 2.15.0+cpu",
        "export ✓ →✗ 1 not reached",
        "Run again pip install --pre torch==2.16.0.dev20261128+cpu",
        "Bisect PyTorch git bisect start 20261128",
        "Text for a PyTorch issue [torch.export: export] TypeError: no",
    ):
        assert expected in words


def test_each_state_has_its_section(morning: Comparison) -> None:
    words = Outline(page(morning, "cp tonight last")).words
    for expected in (
        "Lost coverage 1",
        "not in the JUnit files",
        "Inconclusive 1",
        "Flaky 1",
        "passed in attempt 2: rank 1 lost",
        "20.00 → 25.00 s",
        "+25 %",
        "Fixed 1",
        "export nodes 9 → 10",
        "To make tonight the new baseline: cp tonight last",
    ):
        assert expected in words


def test_the_sentence_is_the_same_everywhere(morning: Comparison, tmp_path: Path) -> None:
    write_junit(as_run(morning), tmp_path / "out.xml")
    assert read_junit(tmp_path / "out.xml").properties[COMPARED] == morning.verdict
    assert f"<title>{morning.verdict}</title>".replace(">", "&gt;")[-40:-11] in page(morning)


def test_in_junit_only_what_is_new_fails(morning: Comparison) -> None:
    outcomes = {result.name.removeprefix("test_"): result.outcome for result in as_run(morning).results}
    assert outcomes == {
        "new": "failed",
        "lost": "missing",
        "infra": "infra",
        "still": "xfailed",
        "slow": "passed",
        "flaky": "passed",
        "fixed": "passed",
        "same": "passed",
    }


def test_a_comparison_is_no_night(morning: Comparison, tmp_path: Path) -> None:
    write_junit(as_run(morning), tmp_path / "out.xml")
    assert read_night(tmp_path) == Night(tmp_path.name, ())


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text(text: str, morning: Comparison) -> None:
    comparison = hostile(text)
    outline = Outline(page(comparison, text))
    assert outline.tags <= Outline(page(morning, "x")).tags
    assert not {"script", "img", "iframe", "object", "a"} & outline.tags
    assert not [name for name, _ in outline.attributes if name.startswith("on") or name in ("style", "src", "href")]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]", page(comparison))
    assert all(len(line) < 20_000 and "\x1b" not in line for line in lines(comparison))
    assert as_run(comparison).results


def test_nothing_of_another_machine_is_asked_for(morning: Comparison) -> None:
    text = page(morning)
    policies = [value for name, value in Outline(text).attributes if name == "content"]
    assert policies[0].startswith("default-src 'none'; style-src 'sha256-")
    assert "url(" not in text
    assert "<script" not in text


def test_many_cells_make_no_large_page() -> None:
    names = [f"m{number}" for number in range(1_500)]
    comparison = compared([passed(name) for name in names], [failed(name, f"KeyError: 'k{name}'") for name in names])
    assert len(page(comparison)) < 600_000
    assert "and 1450 more causes" in page(comparison)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (360, "light")])
def test_in_a_browser_nothing_runs_and_all_fits(
    morning: Comparison, width: int, scheme: str, tmp_path: Path, browser: Browser
) -> None:
    for number, comparison in enumerate((morning, *map(hostile, HOSTILE))):
        path = tmp_path / f"{number}.html"
        write_page(comparison, path, "cp tonight last")
        browser.open(path.as_uri(), width=width, scheme=scheme)
        browser.evaluate("document.querySelectorAll('details').forEach(e => e.open = true)")
        assert browser.evaluate("window.ran") is None
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.called("Log.entryAdded") == []
