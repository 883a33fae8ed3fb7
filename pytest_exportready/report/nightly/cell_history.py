"""Past: what one cell came to in the nights before, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from pytest_exportready.report.cause import Cause
from pytest_exportready.report.nightly.night import Night
from pytest_exportready.report.nightly.observation import Observation

EPISODES = 2
"""Failures that went away by themselves, after which the same one is called flaky."""

STREAK = 3
"""Nights running that a flaky case fails before it is called failing."""

RECENT, OFTEN = 7, 3
"""A flaky case comes back into view when it was not clean in so many of the recent nights."""


@dataclass(frozen=True)
class Past:
    """nights: the oldest first; without those that say nothing about the cell, as its leg or its file was lost.
    seen: what it came to in each; None where it was not among the cases.
    """

    nights: Sequence[Night]
    seen: Sequence[Observation | None]

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
        """The verdicts since which it fails, without one that it passed between; empty where it did not fail."""
        start = len(self.judged)
        while start and self.judged[start - 1][1].failing:
            start -= 1
        return self.judged[start:]

    def gone(self, now: Observation) -> tuple[str, ...]:
        """Stages and checks that ran in the latest verdict, or in the latest that it passed, and did not ``now``."""
        passed = next((seen for _, seen in reversed(self.judged) if seen.outcome == "passed"), None)
        ran = [seen.covered for seen in (self.last, passed) if seen is not None]
        return tuple(sorted(frozenset().union(*ran) - now.covered))

    @property
    def streak_causes(self) -> set[Cause]:
        return {cause for _, seen in self.streak for cause in seen.causes}

    def episodes(self, causes: Sequence[Cause]) -> int:
        """How often it failed for one of ``causes`` for less than STREAK nights and then passed; any cause counts
        where none is given. A night in which it did both is one, whatever the cause, which is not known then.
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
        """Whether it was not clean in OFTEN of the RECENT nights, tonight included."""
        recent = [seen.outcome == "passed" for _, seen in self.judged[-RECENT + 1 :]]
        return [*recent, tonight_clean].count(False) >= OFTEN


def _shares(failing: Sequence[Observation], causes: Sequence[Cause]) -> bool:
    return not causes or any(cause in causes for seen in failing for cause in seen.causes)
