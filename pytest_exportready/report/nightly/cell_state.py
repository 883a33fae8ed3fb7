"""The state of one cell tonight, compared with the nights before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Literal, get_args

from pytest_exportready.report.cause import FailureCause
from pytest_exportready.report.nightly.attribution import Attribution
from pytest_exportready.report.nightly.cell_history import EPISODES, STREAK, Past
from pytest_exportready.report.nightly.expected import Expectation
from pytest_exportready.report.nightly.observation import Cell, Observation
from pytest_exportready.report.nightly.slowdowns import Slower

CellState = Literal[
    "new", "changed", "lost", "unjudged", "still", "flaky", "slower", "expected", "fixed", "watch", "same"
]

_WORDS: dict[CellState, str] = {
    "new": "new failure",
    "changed": "fails for another cause",
    "unjudged": "inconclusive",
    "still": "still failing",
}

WORST_FIRST: tuple[CellState, ...] = get_args(CellState)


@dataclass(frozen=True)
class Change:
    """The state of a cell, and what it follows from."""

    cell: Cell
    state: CellState
    now: Observation | None  # tonight
    was: Observation | None  # the latest verdict before
    since: str = ""  # date of the first night of a failure, or of the last verdict if there is none tonight
    causes: tuple[FailureCause, ...] = ()  # the new ones of ``new`` and ``changed``, otherwise all of tonight
    note: str = ""  # why it has this state
    fresh: bool = False  # it has this state since tonight
    steady: bool = False  # flaky so often that it is listed first
    gone: tuple[str, ...] = ()  # stages and checks that no longer run
    slower: tuple[Slower, ...] = ()
    exact: tuple[tuple[str, int, int], ...] = ()  # facts that changed, as (fact, was, now)
    attribution: Attribution | None = None
    expired: bool = False  # it was expected, and counts again

    @property
    def summary(self) -> str:
        """State and reason in one line; empty for a cell that did not change."""
        if self.state == "same":
            return ""
        since = f" since {self.since}" if self.since else ""
        attribution = f"{self.attribution.whose}: {self.attribution.because}" if self.attribution else ""
        times = "; ".join(f"{one.stage} {one.was:.2f} s -> {one.now:.2f} s" for one in self.slower)
        causes = "; ".join(map(str, self.causes[:3])) if self.state in ("new", "changed", "still") else ""
        parts = [f"{_WORDS.get(self.state, self.state)}{since}", self.note, causes, times, attribution]
        return ": ".join(part for part in parts if part)


def changed(cell: Cell, past: Past, now: Observation | None, expected: Sequence[Expectation], today: date) -> Change:
    """Return the state of ``cell``, without timing and attribution.

    Args:
        expected: The entries that match this cell.
    """
    change = Change(cell, "same", now, past.last)
    if now is None or now.outcome in ("missing", "skipped"):
        return _not_run(change, past)
    if now.outcome == "infra":
        return replace(change, state="unjudged", causes=now.causes, note=now.message, fresh=True)
    if now.outcome == "xfailed":
        was_green = past.last is not None and past.last.outcome in ("passed", "flaky")
        note = f"marked as expected to fail: {now.message}"
        state: CellState = "lost" if was_green else "expected"
        return replace(change, state=state, note=note, fresh=was_green, causes=now.causes)
    if now.outcome == "flaky":
        return replace(change, state="flaky", causes=now.causes, note=_retried(now), steady=past.often(False))
    if now.outcome == "failed":
        return _failed(change, now, past, expected, today)
    return _passed(change, now, past)


def _not_run(change: Change, past: Past) -> Change:
    if past.last is None or past.last_night is None:
        asked = change.now is not None and change.now.outcome == "missing"
        return replace(change, state="unjudged" if asked else "same", fresh=asked)
    before = past.seen[-1]
    fresh = before is not None and before.outcome != "skipped"
    now = change.now
    note = now.message if now else "not in the JUnit files"
    if now and now.outcome == "skipped":
        note = f"skipped: {note}"
    return replace(change, state="lost", since=past.last_night.date, note=note, fresh=fresh)


def _failed(change: Change, now: Observation, past: Past, expected: Sequence[Expectation], today: date) -> Change:
    valid = [entry for entry in expected if not entry.expired(today)]
    left = tuple(cause for cause in now.causes if not any(entry.explains(cause) for entry in valid))
    if not left and valid:
        return replace(change, state="expected", causes=now.causes, note=valid[0].why)
    over = [entry for entry in expected if entry.expired(today) and any(map(entry.explains, left))]
    if over:
        return replace(
            change, state="new", causes=left, fresh=True, expired=True, note=f"no longer expected: {over[0].why}"
        )
    unconfirmed = not now.result.earlier
    if unconfirmed and len(past.streak) + 1 < STREAK and past.episodes(left) >= EPISODES:
        note = f"failed and passed {past.episodes(left)} times before"
        return replace(change, state="flaky", causes=left, note=note, steady=past.often(False))
    if not past.streak:
        return replace(change, state="new", causes=left, fresh=True, note="" if past.last else "first run of this case")
    unknown = tuple(cause for cause in left if cause not in past.streak_causes)
    since = past.streak[0][0].date
    if unknown:
        return replace(change, state="changed", causes=unknown, since=since, fresh=True)
    return replace(change, state="still", causes=left, since=since, gone=past.gone(now))


def _passed(change: Change, now: Observation, past: Past) -> Change:
    was = past.last
    if was is None:
        return change
    gone = past.gone(now)
    if gone:
        return replace(change, state="lost", gone=gone, fresh=True, note=f"no longer runs: {', '.join(gone)}")
    if was.failing and past.episodes(was.causes) + 1 >= EPISODES and len(past.streak) < STREAK:
        return replace(change, state="flaky", note="alternates between failing and passing", steady=past.often(True))
    if was.failing:
        ignored = _ignored(now)
        return replace(change, state="fixed", since=past.streak[0][0].date, causes=was.causes, note=ignored)
    exact = tuple(
        (fact, was.exact[fact], value) for fact, value in now.exact.items() if was.exact.get(fact, value) != value
    )
    return replace(change, exact=exact)


def _ignored(now: Observation) -> str:
    """Return the ignored findings: a failure that the marker ignores from tonight on is not fixed."""
    findings = now.result.readiness.findings if now.result.readiness else ()
    return "; ".join(dict.fromkeys(f"{one.code} is ignored: {one.ignored}" for one in findings if one.ignored))


def _retried(now: Observation) -> str:
    times = len(now.result.earlier)
    return (
        f"passed in attempt {times + 1}: {now.result.earlier[-1]}" if times else "passed and failed in the same night"
    )
