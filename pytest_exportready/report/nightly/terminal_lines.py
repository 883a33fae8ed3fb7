"""A comparison as lines for the terminal: what is new first, what to do, the sentence last."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_exportready.report import truncate
from pytest_exportready.report.nightly.cell_state import State
from pytest_exportready.report.nightly.commands import again
from pytest_exportready.report.nightly.comparison import Comparison
from pytest_exportready.report.nightly.junit_results import told

CAUSES, CELLS = 20, 10
_TOLD: tuple[State, ...] = ("lost", "unjudged", "still", "flaky", "slower", "fixed")


def lines(comparison: Comparison) -> Iterator[str]:
    """The lines; none is longer than a message may be."""
    for move in comparison.moved:
        yield truncate.line(f"moved ({move.kind}): {move}")
    for row in comparison.causes[:CAUSES]:
        yield ""
        yield truncate.line(f"{', '.join(row.whose) or 'new'}: {row.cause}")
        for change in row.changes[:CELLS]:
            yield "  " + truncate.line(f"{_named(change.cell.nodeid, change.cell.leg)}: {told(change)}")
        if len(row.changes) > CELLS:
            yield f"  ... and {len(row.changes) - CELLS:,} more cells"
        first = row.changes[0].cell
        yield f"  Run again: {again(first.nodeid, comparison.tonight.environment(first.leg).get('torch', ''))}"
    if len(comparison.causes) > CAUSES:
        yield f"... and {len(comparison.causes) - CAUSES:,} more causes in the page"
    for state in _TOLD:
        changes = comparison.by_state.get(state, ())
        yield from ([""] if changes else [])
        for change in changes[:CELLS]:
            yield truncate.line(f"{_named(change.cell.nodeid, change.cell.leg)}: {told(change)}")
        if len(changes) > CELLS:
            yield f"... and {len(changes) - CELLS:,} more, {state}"
    for entry in comparison.over:
        yield truncate.line(f"an expected failure passes now. Fix: remove the entry {entry}", 1_000)
    for entry in comparison.unmatched:
        yield truncate.line(f"an expected failure names no case. Fix: mend or remove the entry {entry}", 1_000)
    for problem in (*comparison.tonight.unread, *comparison.unread):
        yield truncate.line(f"not read: {problem}")


def _named(nodeid: str, leg: str) -> str:
    return f"{nodeid} [{leg}]" if leg else nodeid
