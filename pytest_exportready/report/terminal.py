"""The terminal summary: cases by stages, the findings that pytest did not print, and the verdict."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_exportready.case.finding import Finding
from pytest_exportready.case.wording import counted
from pytest_exportready.report import truncate
from pytest_exportready.report.run import Run, TestResult
from pytest_exportready.report.terminal_table import Piece, table

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

WIDTH = 80
ERROR_LIMIT = 30
WARNING_LIMIT = 10

VERDICT_COLORS = {"Ready": "green", "Not ready": "red", "Inconclusive": "yellow"}


def write_summary(terminal: TerminalReporter, run: Run, paths: Sequence[Path]) -> None:
    """Write the section ``export readiness``: table, findings, paths of the reports, verdict."""
    terminal.section("export readiness", sep="=")
    for *pieces, (last, last_color) in _lines(run, paths, terminal._tw.fullwidth, _printed(terminal)):
        for text, color in [*pieces, (last.rstrip(), last_color)]:
            terminal.write(text, **({color: True, "bold": True} if color else {}))
        terminal.line("")


def summary_lines(run: Run, paths: Sequence[Path] = (), width: int = WIDTH, printed: Collection[str] = ()) -> list[str]:
    """Return the lines that ``write_summary`` writes, without colors.

    Args:
        printed: node ids of the failures that pytest has printed.
    """
    return ["".join(text for text, _ in pieces).rstrip() for pieces in _lines(run, paths, width, printed)]


def _printed(terminal: TerminalReporter) -> set[str]:
    """Return the node ids that have an entry under FAILURES or ERRORS."""
    import pytest

    style = terminal.config.getoption("tbstyle", "auto")
    if style == "no" or (style == "line" and pytest.version_tuple < (9,)):  # older releases cut the text there
        return set()
    reports = [*terminal.stats.get("failed", ()), *terminal.stats.get("error", ())]
    return {report.nodeid for report in reports}


def _lines(run: Run, paths: Sequence[Path], width: int, printed: Collection[str]) -> Iterator[list[Piece]]:
    if run.results:
        yield from table(run, width)
        yield [("", "")]
        yield from _errors(run, printed)
        yield from _warnings(run)
        yield from _counts(run)
    for path in paths:
        yield [(f"{'HTML' if path.suffix == '.html' else 'JUnit'}: {_short(path)}", "")]
    yield [(run.verdict, VERDICT_COLORS[run.verdict.split(":")[0]])]


def _errors(run: Run, printed: Collection[str]) -> Iterator[list[Piece]]:
    """Yield the errors of the results that pytest did not print."""
    errors: list[tuple[TestResult, list[str]]] = []
    for result in run.worst_first:
        if result.outcome in ("failed", "infra", "missing") and result.nodeid not in printed:
            blocking = [_rows(finding) for finding in _findings(result) if finding.blocks]
            errors += [(result, rows) for rows in blocking or [[truncate.line(result.message or result.outcome)]]]
    case = None
    for result, rows in errors[:ERROR_LIMIT]:
        if result is not case:
            color = "red" if result.outcome == "failed" else "yellow"
            yield [(run.label_and_stage(result), color), (f"  {truncate.line(result.nodeid)}", "")]
            case = result
        yield from ([(f"  {row}", "")] for row in rows)
    if len(errors) > ERROR_LIMIT:
        yield [(f"... and {len(errors) - ERROR_LIMIT:,} more in the report", "")]
    if errors:
        yield [("", "")]


def _warnings(run: Run) -> Iterator[list[Piece]]:
    """Yield the findings that do not make a case fail, which pytest does not print."""
    warnings = [
        (result, finding)
        for result in run.worst_first
        for finding in _findings(result)
        if finding.severity != "note" and not finding.blocks
    ]
    for result, finding in warnings[:WARNING_LIMIT]:
        kind = f"ignored ({finding.ignored})" if finding.ignored else "warning"
        text = f"{finding.place}: [{finding.code} {finding.name}] {finding.message}"
        yield [(f"{kind}: {run.labels[result.nodeid]}: {truncate.line(text, 200)}", "")]
    if len(warnings) > WARNING_LIMIT:
        yield [(f"... and {len(warnings) - WARNING_LIMIT:,} more warnings in the report", "")]
    if warnings:
        yield [("", "")]


def _counts(run: Run) -> Iterator[list[Piece]]:
    """Yield ``findings: 2 errors, 1 warning, 3 notes``."""
    kinds = Counter(_kind(finding) for result in run.results for finding in _findings(result))
    counts = [counted(kinds[kind], kind) for kind in ("error", "warning", "ignored error", "note") if kinds[kind]]
    if counts:
        yield [(f"findings: {', '.join(counts)}", "")]


def _kind(finding: Finding) -> str:
    if finding.severity == "error" and finding.ignored:
        return "ignored error"
    return finding.severity


def _findings(result: TestResult) -> tuple[Finding, ...]:
    return result.readiness.findings if result.readiness else ()


def _rows(finding: Finding) -> list[str]:
    """Return the summary in one line, the message of torch in another, and the lines of a patch."""
    torch = [f" torch: {truncate.line(finding.torch_says)}"] if finding.torch_says else []
    return [truncate.line(finding.summary, 1_200), *torch, *truncate.block(finding.patch).splitlines()]


def _short(path: Path) -> str:
    """Return the path relative to the working directory if it is inside."""
    try:
        return os.fspath(path.relative_to(Path.cwd()))
    except ValueError:
        return os.fspath(path)
