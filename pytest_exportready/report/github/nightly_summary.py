"""A comparison of nights on GitHub: the job summary, which is also the text of the issue, and annotations."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_exportready.report.github.annotations import LIMIT as ANNOTATIONS, command
from pytest_exportready.report.markdown import code, fenced, fitted
from pytest_exportready.report.nightly.cell_state import Change
from pytest_exportready.report.nightly.commands import again
from pytest_exportready.report.nightly.comparison import CauseRow, Comparison

LIMIT = 60_000
"""Bytes. An issue takes 65,536 characters, the summary of a step 1 MiB."""

CAUSES, CELLS, OTHERS = 20, 5, 10


def nightly_summary(comparison: Comparison) -> str:
    """Return Markdown that fits a job summary and an issue, the verdict first."""
    left_out = "_The rest does not fit. See regress.html in the artifacts._"
    return fitted(list(_parts(comparison)), LIMIT, left_out)


def commands(comparison: Comparison) -> list[str]:
    """Return annotations: the verdict, then each new cause at its line, as many as GitHub shows."""
    kind = "notice" if comparison.conclusion == "no" else "error"
    lines = [command(kind, comparison.verdict, title="export readiness compared with the previous night")]
    for row in comparison.causes[: ANNOTATIONS - 1]:
        change = row.changes[0]
        result = change.now.result if change.now else None
        findings = result.readiness.errors if result and result.readiness else ()
        found = next((finding for finding in findings if finding.code == row.cause.what), None)
        message = str(found) if found else row.cause.message or change.summary
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
        yield "\n".join(["**What changed**", "", *(f"- {code(str(move))}" for move in comparison.moved)])
    for row in comparison.causes[:CAUSES]:
        yield "\n".join(_cause(comparison, row))
    if len(comparison.causes) > CAUSES:
        yield f"{len(comparison.causes) - CAUSES:,} more new causes are in the HTML page."
    for state, changes in comparison.listed:
        rows = map(_row, changes[:OTHERS])
        more = [f"- and {len(changes) - OTHERS:,} more"] if len(changes) > OTHERS else []
        yield "\n".join([f"**{state}** ({len(changes):,})", "", *rows, *more])
    for problem in (*comparison.tonight.unread, *comparison.unread):
        yield f"Cannot read {code(problem)}"


def _cause(comparison: Comparison, row: CauseRow) -> Iterator[str]:
    yield f"**{', '.join(row.whose) or 'new'}**: {code(str(row.cause), 500)}"
    yield ""
    yield from map(_row, row.changes[:CELLS])
    if len(row.changes) > CELLS:
        yield f"- and {len(row.changes) - CELLS:,} more cells"
    first = row.changes[0].cell
    yield ""
    yield fenced(again(first.nodeid, comparison.tonight.environment(first.leg).get("torch", "")), "sh")


def _row(change: Change) -> str:
    return f"- {code(change.cell.nodeid)} {code(change.cell.leg)}: {code(change.summary)}"
