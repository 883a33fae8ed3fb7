"""A comparison as one self-contained HTML page: verdict, changes, causes, and the stages of each cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median

from markupsafe import Markup

from pytest_exportready.report.case_text import WORDS as REPORT_WORDS
from pytest_exportready.report.files import write_atomically
from pytest_exportready.report.nightly.cell_state import CellState, Change
from pytest_exportready.report.nightly.commands import again, bisect
from pytest_exportready.report.nightly.comparison import CauseRow, Comparison
from pytest_exportready.report.nightly.environment_diff import short
from pytest_exportready.report.nightly.observation import Observation
from pytest_exportready.report.nightly.pytorch_issue import issue
from pytest_exportready.report.nightly.slowdowns import Slower
from pytest_exportready.report.page_rows import MARKS as REPORT_MARKS
from pytest_exportready.report.page_shell import SHARED, environment, shell, template_file
from pytest_exportready.report.trend import trend

PACKAGE = "pytest_exportready.report.nightly"
ROWS = 40
"""The most cells shown for one cause or state; the JUnit file has all of them."""

CAUSES = 50
MARKS = {**REPORT_MARKS, "flaky": "~", "absent": "·"}
WORDS = {**REPORT_WORDS, "flaky": "flaky", "missing": "did not run", "absent": "not in the JUnit files"}
TONES = {"yes": "failed", "no": "passed", "inconclusive": "infra"}

_BAD, _NOT_RUN = {"failed", "infra"}, {"skipped", "absent"}

SECTIONS: tuple[tuple[CellState, str, str], ...] = (
    ("lost", "Lost coverage", "Missing, newly skipped, or with a stage that no longer runs. Not counted as passing."),
    ("unjudged", "Inconclusive", "These have no verdict because of an infrastructure error."),
    ("still", "Still failing", "Failing for the same cause as before."),
    ("flaky", "Flaky", "Failed and passed without a change that explains it. The most frequent are first."),
    ("slower", "Slower", "At least 10 % and 0.5 s slower in two consecutive nights, and beyond the usual variation."),
    ("watch", "To watch", "Slower tonight, which may be chance. Reported as slower if it is so again tomorrow."),
    ("expected", "Expected failures", "Known failures with a reason. They do not fail the run."),
    ("fixed", "Fixed", "Passing again."),
)


@dataclass(frozen=True)
class Step:
    """One stage of a cell, with its outcomes; ``absent`` where it did not run."""

    stage: str
    was: str
    now: str
    differs: bool  # and no earlier failure explains it
    left_out: bool  # it did not run tonight because an earlier stage failed


def write_page(comparison: Comparison, path: Path, command: str = "") -> None:
    """Write the page.

    Args:
        command: Makes tonight the baseline.

    Raises:
        OSError: The file cannot be written; an older one is still complete.
    """
    write_atomically(path, page(comparison, command).encode("utf-8", "replace"))


def page(comparison: Comparison, command: str = "") -> str:
    """Return the HTML text of the page."""
    style = f"{template_file(SHARED, 'page.css')}\n{template_file(PACKAGE, 'regress.css')}"
    templates = environment(PACKAGE, {"short": short})
    return templates.get_template("regress.html").render(
        view=_View(comparison),
        comparison=comparison,
        command=command,
        **shell(style),
        marks=MARKS,
        words=WORDS,
        tone=TONES[comparison.conclusion],
        sections=SECTIONS,
        rows=ROWS,
        causes=CAUSES,
    )


@dataclass(frozen=True)
class _View:
    """What the template needs of a comparison."""

    comparison: Comparison

    @cached_property
    def _labels(self) -> Counter[str]:
        seen = {(change.cell.nodeid, _label(change)) for change in self.comparison.changes}
        return Counter(label for _, label in seen)

    def label(self, change: Change) -> str:
        label = _label(change)
        return label if self._labels[label] == 1 else change.cell.nodeid

    def nights(self, change: Change) -> Iterator[tuple[str, str]]:
        """Yield date and outcome of each night, tonight last."""
        for night in (*self.comparison.before, self.comparison.tonight):
            seen = night.cells.get(change.cell)
            yield night.date, "absent" if seen is None else seen.outcome

    def steps(self, change: Change) -> list[Step]:
        """Return the stages of a cell. Those that did not run because of a failure do not count as different."""
        was, now = (seen.stages if seen else {} for seen in (change.was, change.now))
        if not now:
            return []
        names = dict.fromkeys((*now, *was)) if len(now) >= len(was) else dict.fromkeys((*was, *now))
        return [_step(name, was, now) for name in names]

    def times(self, change: Change, one: Slower) -> Markup:
        """Return a plot of the seconds of one stage over the nights."""
        seen = [night.cells.get(change.cell) for night in (*self.comparison.before, self.comparison.tonight)]
        values = [_seconds(each, one.stage) for each in seen]
        return trend(values, f"{one.stage}: {one.was:.2f} s, tonight {one.now:.2f} s", baseline=one.was)

    def overview(self) -> Iterator[tuple[str, str, Markup]]:
        """Yield figures of the whole night: title, tonight, and a plot over the nights."""
        nights = (*self.comparison.before, self.comparison.tonight)
        failing = [float(sum(seen.outcome == "failed" for seen in night.cells.values())) for night in nights]
        judged = [float(sum(seen.judged for seen in night.cells.values())) for night in nights]
        minutes = [sum(run.seconds for run in night.runs) / 60 for night in nights]
        for title, values, form in (
            ("cells failing", failing, ",.0f"),
            ("cells judged", judged, ",.0f"),
            ("minutes of runners", minutes, ",.1f"),
        ):
            if any(values):
                now = format(values[-1], form)
                yield title, now, trend(values, f"{title}: {now} tonight, {len(values)} nights")

    def commands(self, row: CauseRow) -> Iterator[tuple[str, str]]:
        """Yield title and text of the commands for a cause."""
        change = row.changes[0]
        leg, now = change.cell.leg, self.comparison.tonight.environment(change.cell.leg)
        yield "Run again", again(change.cell.nodeid, now.get("torch", ""))
        whose = row.whose[0] if row.whose else "undecided"
        was = self.comparison.before[-1].environment(leg)
        for one in ("torch", "yours") if whose == "undecided" else (whose,):
            found = bisect(one, was, now, change.cell.nodeid)
            if found:
                yield f"Bisect {'PyTorch' if one == 'torch' else 'your commits'}", found
        if "yours" not in row.whose:
            yield "Text for a PyTorch issue", issue(self.comparison, row)

    def exact(self) -> list[tuple[Change, str, int, int]]:
        """Return the facts that changed, the largest change first."""
        found = [(change, *fact) for change in self.comparison.changes for fact in change.exact]
        return sorted(found, key=lambda one: -abs(one[3] - one[2]) / max(one[2], 1))


def _step(name: str, was: Mapping[str, str], now: Mapping[str, str]) -> Step:
    before, after = was.get(name, "absent"), now.get(name, "absent")
    left_out = after in _NOT_RUN and not _BAD.isdisjoint(now.values())
    was_left_out = before in _NOT_RUN and not _BAD.isdisjoint(was.values())
    return Step(name, before, after, bool(was) and before != after and not left_out and not was_left_out, left_out)


def _label(change: Change) -> str:
    seen = change.now or change.was
    return seen.result.label if seen else change.cell.nodeid


def _seconds(seen: Observation | None, stage: str) -> float | None:
    return median(seen.seconds[stage]) if seen is not None and stage in seen.seconds else None
