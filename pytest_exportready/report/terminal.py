"""The end of the terminal: cases by stages, what is wrong and how to mend it, and the verdict."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_exportready.case.finding import Finding
from pytest_exportready.report import truncate
from pytest_exportready.report.run import Run, TestResult

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

WIDTH = 80
ERROR_LIMIT = 30
WARNING_LIMIT = 10
ROW_LIMIT = 200

MARKS = {"passed": "ok", "failed": "FAIL", "infra": "infra", "skipped": "-"}
COLOURS = {
    "ok": "green",
    "FAIL": "red",
    "infra": "yellow",
    "Ready": "green",
    "Not ready": "red",
    "Can't tell": "yellow",
}

Piece = tuple[str, str]
"""A stretch of text and its colour; empty for none."""


def write_summary(terminal: TerminalReporter, run: Run, paths: Sequence[Path]) -> None:
    """Write the section ``export readiness``: table, findings, where the reports are, the verdict last."""
    terminal.section("export readiness", sep="=")
    for *pieces, (last, last_colour) in _lines(run, paths):
        for text, colour in [*pieces, (last.rstrip(), last_colour)]:
            terminal.write(text, **({colour: True, "bold": True} if colour else {}))
        terminal.line("")


def summary_lines(run: Run, paths: Sequence[Path] = ()) -> list[str]:
    """The lines that ``write_summary`` writes, without colours."""
    return ["".join(text for text, _ in pieces).rstrip() for pieces in _lines(run, paths)]


def _lines(run: Run, paths: Sequence[Path]) -> Iterator[list[Piece]]:
    if run.results:
        yield from _table(run)
        yield from _findings(run)
    for path in paths:
        yield [(f"{'page' if path.suffix == '.html' else 'JUnit'}: {_short(path)}", "")]
    yield [(run.verdict, COLOURS[run.verdict.split(":")[0]])]


def _table(run: Run) -> Iterator[list[Piece]]:
    widths = [max(5, min(len(stage), 7)) for stage in run.stages]
    room = WIDTH - sum(width + 2 for width in widths)
    if room < 12:
        widths, room = [5] * len(widths), max(WIDTH - 7 * len(widths), 12)
    shown = run.worst_first[:ROW_LIMIT]
    labels = [truncate.line(run.labels[result.nodeid], room) for result in shown]
    room = max(len("case"), *map(len, labels))
    heads = [f"  {stage[:width]:<{width}}" for stage, width in zip(run.stages, widths, strict=True)]
    yield [(f"{'case':<{room}}{''.join(heads)}", "")]
    for result, label in zip(shown, labels, strict=True):
        yield [(f"{label:<{room}}", ""), *(_cells(run, result, widths) or _aside(result, WIDTH - room))]
    if len(run.results) > ROW_LIMIT:
        yield [(f"... and {len(run.results) - ROW_LIMIT:,} more in the report", "")]


def _cells(run: Run, result: TestResult, widths: list[int]) -> list[Piece]:
    if not result.cells:
        return []
    marks = [MARKS[result.cells[stage]] if stage in result.cells else "" for stage in run.stages]
    cells = zip(marks, widths, strict=True)
    note = [("  (expected)", "")] if result.outcome == "xfailed" else []
    return [(f"  {mark:<{width}}", COLOURS.get(mark, "")) for mark, width in cells] + note


def _aside(result: TestResult, room: int) -> list[Piece]:
    """For a result without stages: what happened instead."""
    colour = COLOURS.get(MARKS.get(result.outcome, ""), "")
    told = f"{result.outcome}: {result.message}" if result.message else result.outcome
    return [(f"  {truncate.line(told, room - 2)}", colour)]


def _findings(run: Run) -> Iterator[list[Piece]]:
    infos = 0
    warnings: list[tuple[TestResult, Finding]] = []
    errors: list[tuple[TestResult, list[str]]] = []
    for result in run.worst_first:
        findings = result.readiness.findings if result.readiness else ()
        infos += sum(finding.severity == "info" for finding in findings)
        told = [finding for finding in findings if finding.severity != "info" and not finding.blocks]
        warnings += [(result, finding) for finding in told]
        if result.outcome in ("failed", "infra", "missing"):
            blocking = [_rows(finding) for finding in findings if finding.blocks]
            errors += [(result, rows) for rows in blocking or [[truncate.line(result.message or result.outcome)]]]
    if errors:
        yield [("", "")]
    case = None
    for result, rows in errors[:ERROR_LIMIT]:
        if result is not case:
            colour = "red" if result.outcome == "failed" else "yellow"
            yield [(run.told(result), colour), (f"  {truncate.line(result.nodeid)}", "")]
            case = result
        yield from ([(f"  {row}", "")] for row in rows)
    if len(errors) > ERROR_LIMIT:
        yield [(f"... and {len(errors) - ERROR_LIMIT:,} more in the report", "")]
    if warnings:
        yield [("", "")]
    for result, finding in warnings[:WARNING_LIMIT]:
        kind = f"ignored ({finding.ignored})" if finding.ignored else "warning"
        text = f"{finding.place}: [{finding.code} {finding.name}] {finding.message}"
        yield [(f"{kind}: {run.labels[result.nodeid]}: {truncate.line(text, 200)}", "")]
    if len(warnings) > WARNING_LIMIT:
        yield [(f"... and {len(warnings) - WARNING_LIMIT:,} more warnings in the report", "")]
    if infos:
        yield [(f"{infos:,} note{'s' * (infos > 1)} in the report", "")]
    yield [("", "")]


def _rows(finding: Finding) -> list[str]:
    """The summary in one line, what torch says in another; a patch keeps its own."""
    torch = [f" torch: {truncate.line(finding.torch_says)}"] if finding.torch_says else []
    return [truncate.line(finding.summary, 1_200), *torch, *truncate.block(finding.patch).splitlines()]


def _short(path: Path) -> str:
    """Relative to the working directory where it is inside it."""
    try:
        return os.fspath(path.relative_to(Path.cwd()))
    except ValueError:
        return os.fspath(path)
