"""The verdicts of one cell in the nights before, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from pytest_exportready.report.cause import FailureCause
from pytest_exportready.report.nightly.night import Night
from pytest_exportready.report.nightly.observation import Observation

EPISODES = 2
"""How often a failure must disappear without a change before the next one is called flaky."""

STREAK = 3
"""Consecutive nights that a flaky case fails before it is called failing."""

RECENT, OFTEN = 7, 3
"""A flaky case is listed first if it was not clean in OFTEN of the RECENT nights."""


@dataclass(frozen=True)
class Past:
    """The nights that say something about a cell, and what was observed in them."""

    nights: Sequence[Night]  # the oldest first, without those whose leg or file was lost
    seen: Sequence[Observation | None]  # None where it was not among the cases

    @cached_property
    def judged(self) -> list[tuple[Night, Observation]]:
        """The nights with a verdict."""
        pairs = zip(self.nights, self.seen, strict=True)
        return [(night, seen) for night, seen in pairs if seen is not None and seen.judged]

    @property
    def last(self) -> Observation | None:
        """The latest verdict."""
        return self.judged[-1][1] if self.judged else None

    @property
    def last_night(self) -> Night | None:
        """The night of the latest verdict."""
        return self.judged[-1][0] if self.judged else None

    @cached_property
    def streak(self) -> list[tuple[Night, Observation]]:
        """The trailing verdicts that all fail; empty if the latest one does not."""
        start = len(self.judged)
        while start and self.judged[start - 1][1].failing:
            start -= 1
        return self.judged[start:]

    def gone(self, now: Observation) -> tuple[str, ...]:
        """Return stages and checks of the latest verdict, or of the latest pass, that did not run ``now``."""
        passed = next((seen for _, seen in reversed(self.judged) if seen.outcome == "passed"), None)
        ran = [seen.covered for seen in (self.last, passed) if seen is not None]
        return tuple(sorted(frozenset().union(*ran) - now.covered))

    @property
    def streak_causes(self) -> set[FailureCause]:
        return {cause for _, seen in self.streak for cause in seen.causes}

    def episodes(self, causes: Sequence[FailureCause]) -> int:
        """Return how often it failed for less than STREAK nights and then passed.

        Only failures for one of ``causes`` count, or all if none is given. A night in which it failed and passed always
        counts, because its cause is not recorded.
        """
        count, failing = 0, list[Observation]()
        for _, seen in self.judged:
            if seen.failing:
                failing.append(seen)
                continue
            count += 0 < len(failing) < STREAK and _shares(failing, causes)
            count += seen.outcome == "flaky"
            failing = []
        return count

    def often(self, tonight_clean: bool) -> bool:
        """Return whether it was not clean in OFTEN of the RECENT nights, including tonight."""
        recent = [seen.outcome == "passed" for _, seen in self.judged[-RECENT + 1 :]]
        return [*recent, tonight_clean].count(False) >= OFTEN


def _shares(failing: Sequence[Observation], causes: Sequence[FailureCause]) -> bool:
    return not causes or any(cause in causes for seen in failing for cause in seen.causes)
