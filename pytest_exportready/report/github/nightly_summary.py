"""A comparison of nights on GitHub: the job summary, which is the text of the issue too, and annotations."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_exportready.report.fenced import fenced
from pytest_exportready.report.github.annotations import LIMIT as ANNOTATIONS, command
from pytest_exportready.report.github.markdown import code, fitted
from pytest_exportready.report.nightly.cell_state import State
from pytest_exportready.report.nightly.commands import again
from pytest_exportready.report.nightly.comparison import CauseRow, Comparison
from pytest_exportready.report.nightly.junit_results import told

LIMIT = 60_000
"""Bytes. An issue holds 65,536 characters, a step's summary 1 MiB."""

CAUSES, CELLS, OTHERS = 20, 5, 10
_TOLD: tuple[State, ...] = ("lost", "unjudged", "still", "flaky", "slower", "fixed")


def morning(comparison: Comparison) -> str:
    """Markdown, the verdict first. It fits a summary and an issue."""
    left_out = "_The rest did not fit: see regress.html among the artifacts._"
    return fitted(list(_parts(comparison)), LIMIT, left_out)


def commands(comparison: Comparison) -> list[str]:
    """The verdict and the place of each new cause, as many as GitHub shows."""
    kind = "notice" if comparison.answer == "no" else "error"
    lines = [command(kind, comparison.verdict, title="export readiness since the night before")]
    for row in comparison.causes[: ANNOTATIONS - 1]:
        change = row.changes[0]
        result = change.now.result if change.now else None
        findings = result.readiness.errors if result and result.readiness else ()
        found = next((finding for finding in findings if finding.code == row.cause.what), None)
        message = str(found) if found else f"{row.cause.message or told(change)}"
        lines.append(
            command(
                "error",
                message,
                file=found.file if found else (result.file if result else ""),
                line=str(found.line if found and found.file else result.line if result and not found else ""),
                title=f"{', '.join(row.whose) or 'new'}: {change.cell.nodeid}",
            )
        )
    return lines


def _parts(comparison: Comparison) -> Iterator[str]:
    head, _, rest = comparison.verdict.partition(":")
    yield f"### {head}: {code(rest.strip(), 2_000)}"
    if comparison.moved:
        yield "\n".join(["**What moved**", "", *(f"- {code(str(move))}" for move in comparison.moved)])
    for row in comparison.causes[:CAUSES]:
        yield "\n".join(_cause(comparison, row))
    if len(comparison.causes) > CAUSES:
        yield f"{len(comparison.causes) - CAUSES:,} more new causes are in the page."
    for state in _TOLD:
        changes = comparison.by_state.get(state, ())
        if changes:
            shown = changes[:OTHERS]
            rows = [f"- {code(change.cell.nodeid)} {code(change.cell.leg)}: {code(told(change))}" for change in shown]
            more = [f"- and {len(changes) - OTHERS:,} more"] if len(changes) > OTHERS else []
            yield "\n".join([f"**{state}** ({len(changes):,})", "", *rows, *more])
    for problem in (*comparison.tonight.unread, *comparison.unread):
        yield f"Not read: {code(problem)}"


def _cause(comparison: Comparison, row: CauseRow) -> Iterator[str]:
    yield f"**{', '.join(row.whose) or 'new'}**: {code(str(row.cause), 500)}"
    yield ""
    for change in row.changes[:CELLS]:
        yield f"- {code(change.cell.nodeid)} {code(change.cell.leg)}: {code(told(change))}"
    if len(row.changes) > CELLS:
        yield f"- and {len(row.changes) - CELLS:,} more cells"
    first = row.changes[0].cell
    yield ""
    yield fenced(again(first.nodeid, comparison.tonight.environment(first.leg).get("torch", "")), "sh")
