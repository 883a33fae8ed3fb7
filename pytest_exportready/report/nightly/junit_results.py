"""A comparison as a JUnit file: new failures fail, known ones do not, and the verdict is a property."""

from __future__ import annotations

from dataclasses import replace

from pytest_exportready.report.nightly.cell_state import CellState, Change
from pytest_exportready.report.nightly.comparison import Comparison
from pytest_exportready.report.nightly.night import COMPARED
from pytest_exportready.report.run import Outcome, Run, TestResult

OUTCOMES: dict[CellState, Outcome] = {
    "new": "failed",
    "changed": "failed",
    "lost": "missing",
    "unjudged": "infra",
    "still": "xfailed",
    "expected": "xfailed",
}
"""The JUnit outcome of each state; the others passed."""


def as_run(comparison: Comparison) -> Run:
    """Return a run with one result for each cell, and the verdict as the property ``exportready.compared``."""
    return Run(
        results=tuple(_result(change) for change in comparison.changes),
        properties={COMPARED: comparison.verdict, **comparison.tonight.environment()},
        timestamp=comparison.tonight.began.isoformat() if comparison.tonight.began else "",
    )


def _result(change: Change) -> TestResult:
    seen = change.now or change.was
    leg = change.cell.leg
    nodeid = f"{change.cell.nodeid} ({leg})" if leg else change.cell.nodeid
    outcome = OUTCOMES.get(change.state, "passed")
    if change.state == "lost" and not change.fresh:
        outcome = "skipped"
    message = change.summary
    if seen is None:
        return TestResult(nodeid, "", nodeid, outcome=outcome, message=message)
    name = f"{seen.result.name} ({leg})" if leg else seen.result.name
    bare = replace(seen.result, readiness=None, earlier=(), left_out=0, output="")
    return replace(bare, nodeid=nodeid, name=name, outcome=outcome, message=message)
