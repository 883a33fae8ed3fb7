"""Find and measure what is not the same on all ranks, worst first; the implementation of ``assert_ranks_agree``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from pytest_exportready.analysis.ranks.comparison import Difference, differences
from pytest_exportready.analysis.ranks.exchange import AbsentRanks, Meeting
from pytest_exportready.analysis.ranks.fixes import fix_of
from pytest_exportready.analysis.ranks.rank_state import ASPECTS, VALUES, RankState
from pytest_exportready.analysis.ranks.value_difference import Distance, distances
from pytest_exportready.case.wording import and_more, named_ranks

_REPORTED = 10


class RankMismatchError(AssertionError):
    """The ranks are not the same, or one of them did not take part in the comparison."""


@dataclass(frozen=True)
class Mismatch:
    """A Difference and, if its values could be measured, how far each rank is from the reference."""

    difference: Difference
    distances: Mapping[int, Distance] = field(default_factory=dict)
    epsilon: float = 0.0  # of the tensor's dtype; 0 if it is not floating point, and for other fields than values

    @property
    def worst(self) -> float:
        """Largest distance; inf if nothing was measured."""
        return max((self.distances[rank].size for rank in self.difference.odd if self.distances), default=math.inf)

    @property
    def summary(self) -> str:
        """What differs, by rank, the worst rank first: a predicate to the name of the tensor."""
        odd = sorted(self.difference.odd, key=lambda rank: -self.distances[rank].size if self.distances else 0)
        if not self.distances or not self.distances[odd[0]].summary:
            return self.difference.summary
        reference = self.distances[self.difference.reference]
        unmeasured = [self.difference.reference] if reference.summary and reference.size == math.inf else []
        each = [f"rank {rank} {self.distances[rank].summary}" for rank in [*odd[:3], *unmeasured]]
        sides = and_more(each, len(odd) + len(unmeasured), "; ")
        return f"differs in values from {named_ranks(self.difference.groups[0][1])}: {sides}"

    @property
    def line(self) -> str:
        return f"{self.difference.where or '(root)'} {self.summary}"


def mismatches(state: RankState, meeting: Meeting) -> list[Mismatch]:
    """Return what differs between the ranks, the same list on each: forms first, then values, the most distant first.

    Tensors that differ in bits only (0.0 and -0.0) are left out.

    Raises:
        AbsentRanks: Some ranks did not take part.
    """
    everyone = meeting.gather_where_different("facts", state.facts)
    if everyone is None:
        return []
    found = differences(everyone, meeting.ranks)
    valued = [difference for difference in found if difference.field == VALUES]
    measured = distances(valued, state.tensors, meeting) if valued else {}
    forms = [Mismatch(difference) for difference in found if difference.field != VALUES]
    values = [Mismatch(d, measured[d.where], _epsilon(state.tensors[d.where].dtype)) for d in valued]
    return forms + sorted((m for m in values if m.worst), key=lambda mismatch: -mismatch.worst)


def _epsilon(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps if dtype.is_floating_point or dtype.is_complex else 0.0


def require_agreement(
    subject: Any, what: tuple[str, ...], uneven: Mapping[str, int], group: dist.ProcessGroup | None, timeout: float
) -> None:
    """Implement ``assert_ranks_agree``."""
    if not what or not set(what) <= set(ASPECTS):
        raise ValueError(f"what={what!r}: accepted are {', '.join(ASPECTS)}")
    meeting = Meeting("assert_ranks_agree", group, seconds=timeout)
    try:
        meeting.gather("here", b"")
        found = mismatches(RankState(subject, what, uneven), meeting)
    except AbsentRanks as absent:
        raise RankMismatchError(
            f"{absent}. Fix: Call `assert_ranks_agree` on every rank of the group, and check for an error on "
            f"{named_ranks(absent.ranks)}."
        ) from absent
    if found:
        lines = [mismatch.line for mismatch in found[:_REPORTED]]
        more = [f"and {len(found) - _REPORTED} more"] if len(found) > _REPORTED else []
        fixes = dict.fromkeys(f"Fix: {fix_of(mismatch.difference)}" for mismatch in found)
        raise RankMismatchError("\n".join([f"The {len(meeting.ranks)} ranks do not agree:", *lines, *more, *fixes]))
