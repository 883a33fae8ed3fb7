"""The table of cases by stages in the terminal summary, as wide as the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_exportready.report import truncate
from pytest_exportready.report.run import Run, TestResult

ROW_LIMIT = 200
NARROWEST = 20
"""The least width of the column of names; with less room, each name has a line of its own."""

EXPECTED = "  (expected)"
MARKS = {"passed": "ok", "failed": "FAIL", "infra": "infra", "skipped": "-"}
COLORS = {"ok": "green", "FAIL": "red", "infra": "yellow"}

Piece = tuple[str, str]
"""A text and its color, which may be empty."""


@dataclass(frozen=True)
class _Columns:
    """The columns of the stages."""

    heads: tuple[str, ...]
    widths: tuple[int, ...]
    gap: int  # spaces before each column
    legend: str = ""  # of heads that are numbers

    @property
    def width(self) -> int:
        return sum(self.widths) + self.gap * len(self.widths)

    def cells(self, texts: tuple[str, ...]) -> list[str]:
        return [f"{' ' * self.gap}{text:<{width}}" for text, width in zip(texts, self.widths, strict=True)]


def table(run: Run, width: int) -> Iterator[list[Piece]]:
    """Yield the rows, those that need attention first.

    Stages have numbers and a legend if their names do not fit into ``width`` beside the names of the cases. A name that
    does not fit has a line of its own, which the terminal wraps, so that it can be copied.
    """
    shown = run.worst_first[:ROW_LIMIT]
    labels = {result.nodeid: truncate.name(run.labels[result.nodeid]) for result in shown}
    expected = any(result.outcome == "xfailed" for result in shown)
    usable = width - len(EXPECTED) if expected else width
    columns = _columns(run, shown, usable)
    room = usable - columns.width
    longest = max(map(len, labels.values()), default=0)
    names = max(len("case"), min(longest, room) if room >= min(longest, NARROWEST) else 0)
    yield [(f"{'case':<{names}}", ""), *((head, "") for head in columns.cells(columns.heads))]
    for result in shown:
        label = labels[result.nodeid]
        aside = _aside(result)
        cells = [] if aside else _cells(run, result, columns)
        if len(label) > names:
            yield [(label, "")]
            label = ""
        if aside:
            text, color = aside
            yield [(f"{label:<{names}}", ""), (f"  {truncate.line(text, max(width - names - 2, 40))}", color)]
        else:
            yield [(f"{label:<{names}}", ""), *cells]
    if len(run.results) > ROW_LIMIT:
        yield [(f"... and {len(run.results) - ROW_LIMIT:,} more in the report", "")]
    for line in textwrap.wrap(columns.legend, width, break_on_hyphens=False):
        yield [(line, "")]


def _columns(run: Run, shown: tuple[TestResult, ...], width: int) -> _Columns:
    marks = [max((len(_mark(result, stage)) for result in shown), default=0) for stage in run.stages]
    named = _Columns(run.stages, _widths(run.stages, marks), gap=2)
    longest = max((len(run.labels[result.nodeid]) for result in shown), default=0)
    if named.width + min(longest, NARROWEST) <= width:
        return named
    numbers = tuple(str(number) for number in range(1, len(run.stages) + 1))
    legend = ", ".join(f"{number}={stage}" for number, stage in zip(numbers, run.stages, strict=True))
    return _Columns(numbers, _widths(numbers, marks), gap=1, legend=legend)


def _widths(heads: tuple[str, ...], marks: list[int]) -> tuple[int, ...]:
    return tuple(max(len(head), mark) for head, mark in zip(heads, marks, strict=True))


def _mark(result: TestResult, stage: str) -> str:
    return MARKS[result.stage_outcomes[stage]] if stage in result.stage_outcomes else ""


def _cells(run: Run, result: TestResult, columns: _Columns) -> list[Piece]:
    marks = tuple(_mark(result, stage) for stage in run.stages)
    note = [(EXPECTED, "")] if result.outcome == "xfailed" else []
    return [(text, COLORS.get(mark, "")) for text, mark in zip(columns.cells(marks), marks, strict=True)] + note


def _aside(result: TestResult) -> Piece | None:
    """Return outcome and message of a result without stages."""
    if result.stage_outcomes:
        return None
    text = f"{result.outcome}: {result.message}" if result.message else result.outcome
    return text, COLORS.get(MARKS.get(result.outcome, ""), "")
