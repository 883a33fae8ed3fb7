"""Planted regressions: histories with known truth, classified without one mistake."""

from __future__ import annotations

from pathlib import Path

import pytest
from histories import History, make

from pytest_exportready.report.nightly.compare import compare
from pytest_exportready.report.nightly.comparison import Comparison
from pytest_exportready.report.nightly.expected import read_expected
from pytest_exportready.report.nightly.night import read_history, read_night

HISTORIES = 30


def compared(history: History) -> Comparison:
    file = history.folder / "expected.toml"
    file.write_text(history.expected, encoding="utf-8")
    return compare(
        read_night(history.last),
        read_night(history.tonight),
        stable=read_night(history.stable) if history.stable else None,
        history=read_history([history.earlier]),
        expected=read_expected(file),
    )


def mistakes(history: History, comparison: Comparison) -> list[str]:
    """Return every cell with a wrong state."""
    found = []
    changes = {(change.cell.nodeid, change.cell.leg): change for change in comparison.changes}
    unlabelled = dict(changes)
    for (nodeid, leg), truth in history.truth.items():
        change = changes.get((nodeid, leg)) or next(
            (one for (name, of), one in changes.items() if name == nodeid and ("CPU" in of) == (leg == "cpu")),
            changes.get((nodeid, unlabelled.get(nodeid, ""))),
        )
        state = change.state if change else "(no cell)"
        if state != truth:
            found.append(f"{nodeid} [{leg}]: {state}, but it is {truth}")
        whose = change.attribution.whose if change and change.attribution else ""
        wanted = history.whose.get((nodeid, leg), whose)
        if whose != wanted:
            found.append(f"{nodeid} [{leg}]: {whose} ({change.attribution}), but it is {wanted}")
    return found


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_every_cell_is_reported_as_it_is(seed: int, tmp_path: Path) -> None:
    history = make(tmp_path, seed)
    comparison = compared(history)
    assert mistakes(history, comparison) == []
    assert len(comparison.changes) == len(history.truth)
    assert comparison.verdict.startswith("Yes: ")
    assert len(comparison.unread) == history.corrupt
