"""The result of comparing nights, from which terminal, job summary, JUnit and HTML page are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from pytest_exportready.case.wording import counted
from pytest_exportready.report.cause import FailureCause, of_finding
from pytest_exportready.report.nightly.attribution import Whose
from pytest_exportready.report.nightly.cell_state import WORST_FIRST, CellState, Change
from pytest_exportready.report.nightly.environment_diff import Moved
from pytest_exportready.report.nightly.expected import Expectation
from pytest_exportready.report.nightly.night import Night

Conclusion = Literal["yes", "no", "inconclusive"]
FailOn = Literal["new", "any", "never"]

_LISTED: tuple[CellState, ...] = ("lost", "unjudged", "still", "flaky", "slower", "fixed")


@dataclass(frozen=True)
class CauseRow:
    """A new or changed cause, and the cells that it affects."""

    cause: FailureCause
    changes: tuple[Change, ...]

    @property
    def whose(self) -> tuple[Whose, ...]:
        """What it is due to, that of most cells first."""
        found = Counter(change.attribution.whose for change in self.changes if change.attribution)
        return tuple(whose for whose, _ in found.most_common())

    @property
    def message(self) -> str:
        """The message of the first cell, with its numbers."""
        seen = self.changes[0].now
        record = seen.result.readiness if seen else None
        errors = record.errors if record else ()
        return next((error.problem for error in errors if of_finding(error) == self.cause), self.cause.message)

    @property
    def because(self) -> str:
        """The evidence for the attribution, if it is the same for all cells."""
        reasons = {change.attribution.because for change in self.changes if change.attribution}
        return reasons.pop() if len(reasons) == 1 else ""


@dataclass(frozen=True)
class Comparison:
    """Tonight compared with the nights before."""

    tonight: Night
    before: Sequence[Night]  # the oldest first
    stable: Night  # the same commit under a release; without runs where there is none
    changes: tuple[Change, ...]  # one for each cell
    moved: tuple[Moved, ...] = ()  # properties that changed since the previous night
    expected: tuple[Expectation, ...] = ()
    unread: tuple[str, ...] = ()  # files of the nights before that could not be read

    @cached_property
    def by_state(self) -> dict[CellState, tuple[Change, ...]]:
        """The cells of each state that occurs, the worst state first."""
        found: dict[CellState, list[Change]] = {}
        for change in self.changes:
            found.setdefault(change.state, []).append(change)
        return {state: tuple(found[state]) for state in WORST_FIRST if state in found}

    @property
    def listed(self) -> list[tuple[CellState, tuple[Change, ...]]]:
        """The cells of each state that text reports list after the new causes."""
        return [(state, those) for state, those in self.by_state.items() if state in _LISTED]

    def of(self, *states: CellState) -> tuple[Change, ...]:
        return tuple(change for state in states for change in self.by_state.get(state, ()))

    @cached_property
    def causes(self) -> tuple[CauseRow, ...]:
        """Every new cause with the cells that it affects, the one with most cells first."""
        hit: dict[FailureCause, list[Change]] = {}
        for change in self.of("new", "changed"):
            for cause in change.causes:
                hit.setdefault(cause, []).append(change)
        rows = [CauseRow(cause, tuple(those)) for cause, those in hit.items()]
        return tuple(sorted(rows, key=lambda row: -len(row.changes)))

    @cached_property
    def not_judged(self) -> tuple[Change, ...]:
        """Cells with no verdict tonight, or with fewer stages or checks than before."""
        return tuple(change for change in self.of("lost", "unjudged") if change.fresh)

    @cached_property
    def over(self) -> tuple[Expectation, ...]:
        """Expected failures that passed tonight in every cell that they match."""
        ran = [change for change in self.changes if change.now is not None and change.now.judged]
        named = {entry: [change for change in ran if entry.matches(change.cell)] for entry in self.expected}
        return tuple(entry for entry, those in named.items() if those and all(_passes(one) for one in those))

    @cached_property
    def unmatched(self) -> tuple[Expectation, ...]:
        """Expected failures that match no cell."""
        return tuple(e for e in self.expected if not any(e.matches(change.cell) for change in self.changes))

    @property
    def conclusion(self) -> Conclusion:
        """Whether anything new fails."""
        if self.before and self.of("new", "changed"):
            return "yes"
        judged = any(change.now is not None and change.now.judged for change in self.changes)
        return "no" if self.before and judged and not self.not_judged and not self.tonight.unread else "inconclusive"

    @property
    def verdict(self) -> str:
        """The verdict in one sentence, the same in terminal, job summary, JUnit and HTML page."""
        if not self.before:
            return f"Inconclusive: there is no earlier night to compare with{self._counted()}"
        if self.conclusion == "yes":
            causes, cells = counted(len(self.causes), "new cause"), counted(len(self.of("new", "changed")), "cell")
            parts = [f"Yes: {causes}, {cells}", *self._why()]
            aside = ", ".join(self._did_not_run())
            return "; ".join([", ".join(parts[:2]), *parts[2:], *([aside] if aside else [])])
        if self.conclusion == "no":
            return f"No: nothing new in {counted(len(self.tonight.cells), 'cell')}{self._counted()}"
        return f"Inconclusive: {', '.join(self._did_not_run()) or 'no case was judged'}{self._counted()}"

    def status(self, fail_on: FailOn) -> int:
        """Return the exit status: 0 for success, 1 for a failure that ``fail_on`` names, 2 for inconclusive.

        Args:
            fail_on: ``new`` causes, ``any`` unexpected failure or slowdown, or ``never`` (always 0).
        """
        if fail_on == "never":
            return 0
        failing = self.of("new", "changed", "still", "flaky", "slower") if fail_on == "any" else ()
        if self.conclusion == "yes" or failing:
            return 1
        return 0 if self.conclusion == "no" else 2

    def _why(self) -> list[str]:
        """Return the changes behind most cells, the evidence, and the attribution of the other cells."""
        found = Counter(change.attribution for change in self.of("new", "changed") if change.attribution)
        whose = Counter(attribution.whose for attribution in found.elements())
        if not whose:
            return []
        first = whose.most_common(1)[0][0]
        chosen = next(one for one, _ in found.most_common() if one.whose == first)
        named = {"torch": "torch", "yours": "your commit", "environment": "the environment", "undecided": "undecided"}
        shown = [str(move) for move in chosen.moved if move.name != "torch.git_version"][:2]
        others = [f"{counted(count, 'cell')}: {named[one]}" for one, count in whose.items() if one != first]
        return [", ".join(shown) or named[first], chosen.because, *others]

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
            (len(self.tonight.unread), f"{counted(len(self.tonight.unread), 'file')} of tonight cannot be read"),
        )
        return [text for count, text in parts if count]

    def _counted(self) -> str:
        words = {"still": "still failing", **{state: state for state in ("flaky", "slower", "expected", "fixed")}}
        counts = [f"{len(self.by_state[state]):,} {word}" for state, word in words.items() if state in self.by_state]
        return f"; {', '.join(counts)}" if counts else ""


def _passes(change: Change) -> bool:
    return change.now is not None and change.now.outcome == "passed"
