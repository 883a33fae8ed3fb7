"""State: what one cell came to tonight, seen from the nights before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Literal

from pytest_exportready.report.cause import Cause
from pytest_exportready.report.nightly.attribution import Attribution
from pytest_exportready.report.nightly.cell_history import EPISODES, STREAK, Past
from pytest_exportready.report.nightly.expected import Expectation
from pytest_exportready.report.nightly.observation import Cell, Observation
from pytest_exportready.report.nightly.slowdowns import Slower

State = Literal["new", "changed", "lost", "unjudged", "still", "flaky", "slower", "expected", "fixed", "watch", "same"]

WORST_FIRST: tuple[State, ...] = (
    "new",
    "changed",
    "lost",
    "unjudged",
    "still",
    "flaky",
    "slower",
    "expected",
    "fixed",
    "watch",
    "same",
)


@dataclass(frozen=True)
class Change:
    """What a cell came to.

    state: see State. now: tonight's observation, was: the latest verdict before; None where there is none.
    since: date of the first night of a failure, or of the last one with a verdict where there is none tonight.
    causes: those that are new for ``new`` and ``changed``, else all of tonight's. note: why it is called so.
    fresh: so since tonight. steady: flaky so often that it comes back into view. gone: what no longer runs.
    exact: facts that changed, as (fact, was, now). expired: it was expected, and counts again.
    """

    cell: Cell
    state: State
    now: Observation | None
    was: Observation | None
    since: str = ""
    causes: tuple[Cause, ...] = ()
    note: str = ""
    fresh: bool = False
    steady: bool = False
    gone: tuple[str, ...] = ()
    slower: tuple[Slower, ...] = ()
    exact: tuple[tuple[str, int, int], ...] = ()
    attribution: Attribution | None = None
    expired: bool = False


def changed(cell: Cell, past: Past, now: Observation | None, expected: Sequence[Expectation], today: date) -> Change:
    """The state of ``cell``, without timing and without attribution. expected: the entries that name this cell."""
    change = Change(cell, "same", now, past.last)
    if now is None or now.outcome in ("missing", "skipped"):
        return _not_run(change, past)
    if now.outcome == "infra":
        return replace(change, state="unjudged", causes=now.causes, note=now.message, fresh=True)
    if now.outcome == "xfailed":
        was_green = past.last is not None and past.last.outcome in ("passed", "flaky")
        note = f"expected to fail by its mark: {now.message}"
        state: State = "lost" if was_green else "expected"
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
    note = (
        f"skipped: {now.message}" if now and now.outcome == "skipped" else (now.message if now else "not in the files")
    )
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
        return replace(change, state="new", causes=left, fresh=True, note="" if past.last else "never seen before")
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
        return replace(change, state="flaky", note="fails and passes by turns", steady=past.often(True))
    if was.failing:
        ignored = _ignored(now)
        return replace(change, state="fixed", since=past.streak[0][0].date, causes=was.causes, note=ignored)
    exact = tuple(
        (fact, was.exact[fact], value) for fact, value in now.exact.items() if was.exact.get(fact, value) != value
    )
    return replace(change, exact=exact)


def _ignored(now: Observation) -> str:
    """A failure that the user's marker ignores from tonight on is not mended."""
    findings = now.result.readiness.findings if now.result.readiness else ()
    told = [f"{finding.code} is ignored: {finding.ignored}" for finding in findings if finding.ignored]
    return "; ".join(dict.fromkeys(told))


def _retried(now: Observation) -> str:
    times = len(now.result.earlier)
    return (
        f"passed at attempt {times + 1}: {now.result.earlier[-1]}" if times else "passed and failed in the same night"
    )
