"""A comparison as a JUnit file: what is new fails, what is known does not, and the sentence is a property."""

from __future__ import annotations

from dataclasses import replace

from pytest_exportready.report.nightly.cell_state import Change, State
from pytest_exportready.report.nightly.comparison import Comparison
from pytest_exportready.report.nightly.night import COMPARED
from pytest_exportready.report.run import Outcome, Run, TestResult

OUTCOMES: dict[State, Outcome] = {
    "new": "failed",
    "changed": "failed",
    "lost": "missing",
    "unjudged": "infra",
    "still": "xfailed",
    "expected": "xfailed",
}
"""What each state is in JUnit; whatever is not named here passed."""


def as_run(comparison: Comparison) -> Run:
    """One result a cell; the property ``exportready.compared`` holds the sentence."""
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
    message = told(change)
    if seen is None:
        return TestResult(nodeid, "", nodeid, outcome=outcome, message=message)
    name = f"{seen.result.name} ({leg})" if leg else seen.result.name
    bare = replace(seen.result, readiness=None, earlier=(), left_out=0, output="")
    return replace(bare, nodeid=nodeid, name=name, outcome=outcome, message=message)


def told(change: Change) -> str:
    """The state and why, in a line; empty for a cell that is as it was."""
    if change.state == "same":
        return ""
    words = {"new": "new failure", "changed": "fails for another cause", "unjudged": "not judged", "lost": "lost"}
    since = f" since {change.since}" if change.since else ""
    whose = f"{change.attribution.whose}: {change.attribution.because}" if change.attribution else ""
    times = "; ".join(f"{one.stage} {one.was:.2f} s -> {one.now:.2f} s" for one in change.slower)
    causes = "; ".join(map(str, change.causes[:3])) if change.state in ("new", "changed", "still") else ""
    parts = [f"{words.get(change.state, change.state)}{since}", change.note, causes, times, whose]
    return ": ".join(part for part in parts if part)
