"""A comparison as lines for the terminal: new causes first, then the other states."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_exportready.report import truncate
from pytest_exportready.report.nightly.commands import again
from pytest_exportready.report.nightly.comparison import Comparison

CAUSES, CELLS = 20, 10


def lines(comparison: Comparison) -> Iterator[str]:
    """Yield the lines, each cut to the length of a message."""
    for move in comparison.moved:
        yield truncate.line(f"changed ({move.kind}): {move}")
    for row in comparison.causes[:CAUSES]:
        yield ""
        yield truncate.line(f"{', '.join(row.whose) or 'new'}: {row.cause}")
        for change in row.changes[:CELLS]:
            yield "  " + truncate.line(f"{_named(change.cell.nodeid, change.cell.leg)}: {change.summary}")
        if len(row.changes) > CELLS:
            yield f"  ... and {len(row.changes) - CELLS:,} more cells"
        first = row.changes[0].cell
        yield f"  Run again: {again(first.nodeid, comparison.tonight.environment(first.leg).get('torch', ''))}"
    if len(comparison.causes) > CAUSES:
        yield f"... and {len(comparison.causes) - CAUSES:,} more causes in the HTML page"
    for state, changes in comparison.listed:
        yield ""
        for change in changes[:CELLS]:
            yield truncate.line(f"{_named(change.cell.nodeid, change.cell.leg)}: {change.summary}")
        if len(changes) > CELLS:
            yield f"... and {len(changes) - CELLS:,} more, {state}"
    for entry in comparison.over:
        yield truncate.line(f"expected failure passes now. Fix: Remove the entry {entry}", 1_000)
    for entry in comparison.unmatched:
        yield truncate.line(f"expected-failure entry matches no case. Fix: Correct or remove the entry {entry}", 1_000)
    for problem in (*comparison.tonight.unread, *comparison.unread):
        yield truncate.line(f"cannot read {problem}")


def _named(nodeid: str, leg: str) -> str:
    return f"{nodeid} [{leg}]" if leg else nodeid
