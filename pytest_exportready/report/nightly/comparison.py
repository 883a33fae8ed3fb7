"""Comparison: the answer of a morning, from which the terminal, the job summary, JUnit and the page are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from pytest_exportready.case.wording import counted
from pytest_exportready.report.cause import Cause, of_finding
from pytest_exportready.report.nightly.attribution import Whose
from pytest_exportready.report.nightly.cell_state import WORST_FIRST, Change, State
from pytest_exportready.report.nightly.environment_diff import Moved
from pytest_exportready.report.nightly.expected import Expectation
from pytest_exportready.report.nightly.night import Night

Answer = Literal["yes", "no", "can't tell"]
FailOn = Literal["new", "any", "never"]


@dataclass(frozen=True)
class CauseRow:
    """A cause that is new, or changed, and the cells that it hits."""

    cause: Cause
    changes: tuple[Change, ...]

    @property
    def whose(self) -> tuple[Whose, ...]:
        """Whose it is, of most cells first."""
        found = Counter(change.attribution.whose for change in self.changes if change.attribution)
        return tuple(whose for whose, _ in found.most_common())

    @property
    def message(self) -> str:
        """What the first cell says, numbers and all."""
        seen = self.changes[0].now
        record = seen.result.readiness if seen else None
        told = (error.problem for error in (record.errors if record else ()) if of_finding(error) == self.cause)
        return next(told, self.cause.message)

    @property
    def because(self) -> str:
        """Why it is called so, where all cells say the same of it."""
        told = {change.attribution.because for change in self.changes if change.attribution}
        return told.pop() if len(told) == 1 else ""


@dataclass(frozen=True)
class Comparison:
    """tonight, before: the nights, the oldest first. changes: one a cell. moved: since the night before.

    stable: the arm under a release; without runs where there is none. unread: of the nights before, what could not be
    read.
    """

    tonight: Night
    before: Sequence[Night]
    stable: Night
    changes: tuple[Change, ...]
    moved: tuple[Moved, ...] = ()
    expected: tuple[Expectation, ...] = ()
    unread: tuple[str, ...] = ()

    @cached_property
    def by_state(self) -> dict[State, tuple[Change, ...]]:
        """The cells of each state, the worst first; states without any left out."""
        found: dict[State, list[Change]] = {}
        for change in self.changes:
            found.setdefault(change.state, []).append(change)
        return {state: tuple(found[state]) for state in WORST_FIRST if state in found}

    def of(self, *states: State) -> tuple[Change, ...]:
        return tuple(change for state in states for change in self.by_state.get(state, ()))

    @cached_property
    def causes(self) -> tuple[CauseRow, ...]:
        """Every new cause with the cells that it hits, most first."""
        hit: dict[Cause, list[Change]] = {}
        for change in self.of("new", "changed"):
            for cause in change.causes:
                hit.setdefault(cause, []).append(change)
        rows = [CauseRow(cause, tuple(those)) for cause, those in hit.items()]
        return tuple(sorted(rows, key=lambda row: -len(row.changes)))

    @cached_property
    def not_judged(self) -> tuple[Change, ...]:
        """Cells of which tonight says nothing, or less than it should."""
        return tuple(change for change in self.of("lost", "unjudged") if change.fresh)

    @cached_property
    def over(self) -> tuple[Expectation, ...]:
        """Expected failures that passed tonight in every cell that they name."""
        ran = [change for change in self.changes if change.now is not None and change.now.judged]
        named = {entry: [change for change in ran if entry.matches(change.cell)] for entry in self.expected}
        return tuple(entry for entry, those in named.items() if those and all(_passes(one) for one in those))

    @cached_property
    def unmatched(self) -> tuple[Expectation, ...]:
        """Expected failures that name no cell at all."""
        return tuple(e for e in self.expected if not any(e.matches(change.cell) for change in self.changes))

    @property
    def answer(self) -> Answer:
        """Is there something new to look at?"""
        if self.before and self.of("new", "changed"):
            return "yes"
        judged = any(change.now is not None and change.now.judged for change in self.changes)
        return "no" if self.before and judged and not self.not_judged and not self.tonight.unread else "can't tell"

    @property
    def verdict(self) -> str:
        """The one sentence: the same in terminal, job summary, JUnit and page."""
        if not self.before:
            return f"Can't tell: there is no earlier night to compare with{self._counted()}"
        if self.answer == "yes":
            told = [f"Yes: {self._new()}", *self._why()]
            aside = ", ".join(self._did_not_run())
            return "; ".join([", ".join(told[:2]), *told[2:], *([aside] if aside else [])])
        if self.answer == "no":
            return f"No: nothing new in {counted(len(self.tonight.cells), 'cell')}{self._counted()}"
        return f"Can't tell: {', '.join(self._did_not_run()) or 'no case was judged'}{self._counted()}"

    def status(self, fail_on: FailOn) -> int:
        """Exit status: 0 as it should be, 1 something failed that ``fail_on`` asks for, 2 that cannot be told.

        new: new causes. any: whatever fails or is slower, as long as it is not expected. never: always 0.
        """
        if fail_on == "never":
            return 0
        failing = self.of("new", "changed", "still", "flaky", "slower") if fail_on == "any" else ()
        if self.answer == "yes" or failing:
            return 1
        return 0 if self.answer == "no" else 2

    def _new(self) -> str:
        changes = self.of("new", "changed")
        causes = counted(len(self.causes), "new cause")
        return f"{causes}, {counted(len(changes), 'cell')}"

    def _why(self) -> list[str]:
        """What moved of that whose most of it is, and what the other arms say."""
        found = Counter(change.attribution for change in self.of("new", "changed") if change.attribution)
        whose = Counter(attribution.whose for attribution in found.elements())
        if not whose:
            return []
        first = whose.most_common(1)[0][0]
        chosen = next(one for one, _ in found.most_common() if one.whose == first)
        named = {"torch": "torch", "yours": "your commit", "environment": "the environment", "undecided": "undecided"}
        shown = [str(move) for move in chosen.moved if move.name != "torch.git_version"][:2]
        told = [", ".join(shown) or named[first], chosen.because]
        others = [f"{counted(count, 'cell')}: {named[one]}" for one, count in whose.items() if one != first]
        return told + others

    def _did_not_run(self) -> list[str]:
        def skipped(change: Change) -> bool:
            return change.now is not None and change.now.outcome in ("skipped", "xfailed")

        lost = self.not_judged
        less = [change for change in lost if change.gone]
        aside = [change for change in lost if skipped(change)]
        absent = len(lost) - len(less) - len(aside)
        parts = (
            (absent, f"{counted(absent, 'cell')} did not run"),
            (len(aside), f"{counted(len(aside), 'cell')} newly skipped"),
            (len(less), f"{counted(len(less), 'cell')} with stages that no longer run"),
            (len(self.tonight.unread), f"{counted(len(self.tonight.unread), 'file')} of tonight could not be read"),
        )
        return [text for count, text in parts if count]

    def _counted(self) -> str:
        words = {
            "still": "still failing",
            "flaky": "flaky",
            "slower": "slower",
            "expected": "expected",
            "fixed": "fixed",
        }
        told = [f"{len(self.by_state[state]):,} {word}" for state, word in words.items() if state in self.by_state]
        return f"; {', '.join(told)}" if told else ""


def _passes(change: Change) -> bool:
    return change.now is not None and change.now.outcome == "passed"
