"""Is a stage slower than it was? Only what holds two nights running is called so; else it is watched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from pytest_exportready.report.nightly.rank_sum import larger, smallest

SHARE = 0.10
FLOOR = 0.5  # seconds: below, timers and schedulers decide
CHANCE = 0.002
SAMPLES = 4
NIGHTS = (4, 7)
"""The least and the most nights that a baseline is the median of."""
SPREADS = 3.0  # of the baseline's own scatter, in standard deviations (1.4826 x median deviation)

Samples = Sequence[float]


@dataclass(frozen=True)
class Slower:
    """stage: which one. was, now: medians in seconds. confirmed: so it was last night as well; else it is watched."""

    stage: str
    was: float
    now: float
    confirmed: bool

    @property
    def share(self) -> float:
        return self.now / self.was - 1 if self.was else 0.0


def slower(stage: str, earlier: Sequence[Samples], tonight: Samples) -> Slower | None:
    """earlier: the seconds of each night before on the same machine, the oldest first; nights without any left out."""
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
        return True  # too few for the test to tell, whatever the values
    return larger(tonight, pooled) < CHANCE


def _baseline(nights: Sequence[Samples]) -> float:
    return median(median(night) for night in nights)
