"""Detect stages that became slower; a single night is only watched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from pytest_exportready.report.nightly.rank_sum import larger, smallest

SHARE = 0.10
FLOOR = 0.5  # seconds; smaller differences are noise of timers and schedulers
CHANCE = 0.002
SAMPLES = 4
NIGHTS = (4, 7)
"""The least and the most nights whose median is a baseline."""
SPREADS = 3.0  # of the baseline's own scatter, in standard deviations (1.4826 x median deviation)

Samples = Sequence[float]


@dataclass(frozen=True)
class Slower:
    """A stage that became slower."""

    stage: str
    was: float  # median in seconds
    now: float  # median in seconds
    confirmed: bool  # it was also slower last night

    @property
    def share(self) -> float:
        return self.now / self.was - 1 if self.was else 0.0


def slower(stage: str, earlier: Sequence[Samples], tonight: Samples) -> Slower | None:
    """Return how much slower a stage is; None if it is not.

    Args:
        earlier: The seconds of each earlier night on the same machine, the oldest first.
    """
    least, most = NIGHTS
    if not tonight or len(earlier) < least:
        return None
    before = earlier[:-1][-most:]
    if len(before) >= least and _slower(before, earlier[-1]) and _slower(before, tonight):
        return Slower(stage, _baseline(before), median(tonight), confirmed=True)
    recent = earlier[-most:]
    return Slower(stage, _baseline(recent), median(tonight), confirmed=False) if _slower(recent, tonight) else None


def _slower(nights: Sequence[Samples], tonight: Samples) -> bool:
    was, now = _baseline(nights), median(tonight)
    if now < was * (1 + SHARE) or now - was < FLOOR:
        return False
    scatter = 1.4826 * median(abs(median(night) - was) for night in nights)
    if now - was < SPREADS * scatter:
        return False
    pooled = [value for night in nights for value in night]
    if min(len(pooled), len(tonight)) < SAMPLES or smallest(len(tonight), len(pooled)) >= CHANCE:
        return True  # too few values for the test to be significant
    return larger(tonight, pooled) < CHANCE


def _baseline(nights: Sequence[Samples]) -> float:
    return median(median(night) for night in nights)
