"""Compare tonight with the nights before: the state of each cell, and what a new failure is due to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from pytest_exportready.report.nightly.attribution import Arm, attribute
from pytest_exportready.report.nightly.cell_history import Past
from pytest_exportready.report.nightly.cell_state import Change, changed
from pytest_exportready.report.nightly.comparison import Comparison
from pytest_exportready.report.nightly.environment_diff import moved
from pytest_exportready.report.nightly.expected import Expectation
from pytest_exportready.report.nightly.matrix_legs import with_legs
from pytest_exportready.report.nightly.night import ONE_NIGHT, Night
from pytest_exportready.report.nightly.observation import Cell, Observation
from pytest_exportready.report.nightly.slowdowns import slower

WINDOW = 14
"""How many nights before tonight are compared."""

MACHINE = ("gpu", "cpu")
"""Properties that must be equal for times to be comparable."""


def compare(
    last: Night,
    tonight: Night,
    *,
    stable: Night | None = None,
    history: Sequence[Night] = (),
    expected: Sequence[Expectation] = (),
) -> Comparison:
    """Compare ``tonight`` with ``last`` and the nights of ``history``, in any order and with gaps.

    A ``last`` that began in the hours of tonight is the last good torch on tonight's commit. With a history, it is used
    for the attribution of failures, and the history decides what is new.

    Args:
        stable: The same commit under a release.
    """
    *nights, stable, last, tonight = with_legs([*history, stable or Night("", ()), last, tonight])
    control = last if nights and _is_control(last, tonight) else None
    before = _before(tonight, nights, None if control else last)
    if control and not before:
        before, control = [last], None
    judge = _Judge(before, tonight, stable, control, expected)
    moves = moved(before[-1].environment(), tonight.environment()) if before else ()
    return Comparison(
        tonight=tonight,
        before=before,
        stable=stable,
        changes=tuple(judge.changes()),
        moved=moves,
        expected=tuple(expected),
        unread=tuple(problem for night in (*nights, stable, last) for problem in night.unread),
    )


def _is_control(last: Night, tonight: Night) -> bool:
    same_time = last.began and tonight.began and abs(tonight.began - last.began) < ONE_NIGHT
    return bool(same_time) and last.environment().get("torch") != tonight.environment().get("torch")


def _before(tonight: Night, history: Sequence[Night], last: Night | None) -> list[Night]:
    """Return the nights before tonight, with ``last`` once and as the latest."""
    known = last.began if last is not None else None
    nights = [night for night in history if night.runs and (night.began is None or night.began != known)]
    if tonight.began:
        nights = [night for night in nights if night.began is None or night.began < tonight.began]
    nights.sort(key=lambda night: (night.began is not None, night.began or 0, night.name))
    return [*nights, *([last] if last is not None and last.runs else [])][-WINDOW:]


@dataclass(frozen=True)
class _Judge:
    before: Sequence[Night]
    tonight: Night
    stable: Night
    control: Night | None
    expected: Sequence[Expectation]

    def changes(self) -> Iterator[Change]:
        """Yield one for each cell of any night, in tonight's order."""
        nights = (self.tonight, *reversed(self.before))
        today = self.tonight.began.date() if self.tonight.began else date.today()
        for cell in dict.fromkeys(cell for night in nights for cell in night.cells):
            past = self._past(cell)
            now = self.tonight.cells.get(cell)
            named = [entry for entry in self.expected if entry.matches(cell)]
            change = changed(cell, past, now, named, today)
            if change.state in ("new", "changed") and not change.expired:
                change = self._attributed(change, past)
            elif change.state == "same" and now is not None and now.outcome == "passed":
                change = self._timed(change, past, now)
            yield change

    def _past(self, cell: Cell) -> Past:
        seen = [(night, night.cells.get(cell)) for night in self.before]
        known = [(night, one) for night, one in seen if one is not None or self._is_complete(night, cell.leg)]
        return Past([night for night, _ in known], [one for _, one in known])

    def _is_complete(self, night: Night, leg: str) -> bool:
        """Return whether no file of this leg is lost, so that a cell that is not in ``night`` was not a case."""
        return not night.unread and leg in (night.legs or ("",))

    def _attributed(self, change: Change, past: Past) -> Change:
        leg = change.cell.leg
        was = past.last_night.environment(leg) if past.last_night else None
        now = self.tonight.environment(leg)
        arms = (self._arm(self.control, change.cell), self._arm(self.stable, change.cell))
        return replace(change, attribution=attribute(change.causes, was, now, arms))

    def _arm(self, night: Night | None, cell: Cell) -> Arm | None:
        """Return the same case in another arm, whose legs may have other names."""
        if night is None or not night.runs:
            return None
        there = [cell] if cell in night.cells else [one for one in night.cells if one.nodeid == cell.nodeid]
        if len(there) != 1:
            return None
        return Arm(night.environment(there[0].leg), night.cells[there[0]])

    def _timed(self, change: Change, past: Past, now: Observation) -> Change:
        machine = _machine(self.tonight.environment(change.cell.leg))
        comparable = [
            seen
            for night, seen in past.judged
            if seen.outcome == "passed" and _machine(night.environment(change.cell.leg)) == machine
        ]
        found = [
            slower(stage, [seen.seconds[stage] for seen in comparable if stage in seen.seconds], seconds)
            for stage, seconds in now.seconds.items()
        ]
        stages = tuple(one for one in found if one is not None)
        if not stages:
            return change
        confirmed = any(one.confirmed for one in stages)
        return replace(change, state="slower" if confirmed else "watch", slower=stages)


def _machine(environment: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(environment.get(key, "") for key in MACHINE)
