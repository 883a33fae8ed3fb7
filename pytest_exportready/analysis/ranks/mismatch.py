"""What the ranks have unlike each other: found, measured, and told worst first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from pytest_exportready.analysis.ranks.comparison import Difference, differences, named
from pytest_exportready.analysis.ranks.exchange import AbsentRanks
from pytest_exportready.analysis.ranks.fixes import fix_of
from pytest_exportready.analysis.ranks.gather import Table
from pytest_exportready.analysis.ranks.rank_state import ASPECTS, VALUES, Described
from pytest_exportready.analysis.ranks.value_difference import Distance, distances
from pytest_exportready.case.wording import and_more

_TOLD = 10


class RankMismatchError(AssertionError):
    """The ranks do not have the same, or one of them did not come to say what it has."""


@dataclass(frozen=True)
class Mismatch:
    """A Difference and, where its values could be measured, how far each rank is from the reference.

    epsilon: of the tensor's dtype; 0 for what is not floating point, and for other fields than values.
    """

    difference: Difference
    distances: Mapping[int, Distance] = field(default_factory=dict)
    epsilon: float = 0.0

    @property
    def worst(self) -> float:
        """Largest distance; inf where nothing was measured."""
        return max((self.distances[rank].size for rank in self.difference.odd if self.distances), default=math.inf)

    def told(self) -> str:
        """What differs, by rank, the worst rank first; without the name of the tensor."""
        odd = sorted(self.difference.odd, key=lambda rank: -self.distances[rank].size if self.distances else 0)
        if not self.distances or not self.distances[odd[0]].told:
            return self.difference.told()
        reference = self.difference.reference
        agreeing = named(self.difference.groups[0][1])
        if self.distances[reference].told and self.distances[reference].size == math.inf:
            each = [f"rank {rank}: {self.distances[rank].told}" for rank in [*odd[:3], reference]]
            return f"values differ from those of {agreeing}: {'; '.join(each)}"
        each = [f"rank {rank} {self.distances[rank].told}" for rank in odd[:3]]
        return f"values differ from those of {agreeing}: {and_more(each, len(odd), '; ')}"

    def line(self) -> str:
        return f"{self.difference.where or 'the root'}: {self.told()}"


def mismatches(described: Described, table: Table) -> list[Mismatch]:
    """What differs between the ranks, the same list on each: forms first, then values, the most distant first.

    Tensors that differ in bits only (0.0 and -0.0) are left out. Raises AbsentRanks.
    """
    everyone = table.gather_where_different("facts", described.facts)
    if everyone is None:
        return []
    found = differences(everyone, table.ranks)
    valued = [difference for difference in found if difference.field == VALUES]
    measured = distances(valued, described.tensors, table) if valued else {}
    forms = [Mismatch(difference) for difference in found if difference.field != VALUES]
    values = [Mismatch(d, measured[d.where], _epsilon(described.tensors[d.where].dtype)) for d in valued]
    return forms + sorted((m for m in values if m.worst), key=lambda mismatch: -mismatch.worst)


def _epsilon(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps if dtype.is_floating_point or dtype.is_complex else 0.0


def require_agreement(
    subject: Any, what: tuple[str, ...], uneven: Mapping[str, int], group: dist.ProcessGroup | None, timeout: float
) -> None:
    """``assert_ranks_agree``, which see."""
    if not what or not set(what) <= set(ASPECTS):
        raise ValueError(f"what={what!r}: accepted are {', '.join(ASPECTS)}")
    if not (dist.is_available() and dist.is_initialized()):
        raise ValueError("torch.distributed has no process group here. Fix: torch.distributed.init_process_group(...)")
    table = Table("assert_ranks_agree", group, timeout)
    try:
        table.gather("here", b"")
        found = mismatches(Described(subject, what, uneven), table)
    except AbsentRanks as absent:
        raise RankMismatchError(
            f"{absent}. Fix: call assert_ranks_agree on every rank of the group, or see what {named(absent.ranks)} "
            "ran into"
        ) from absent
    if found:
        lines = [mismatch.line() for mismatch in found[:_TOLD]]
        more = [f"and {len(found) - _TOLD} more"] if len(found) > _TOLD else []
        fixes = dict.fromkeys(f"Fix: {fix_of(mismatch.difference)}" for mismatch in found)
        raise RankMismatchError("\n".join([f"the {len(table.ranks)} ranks do not agree:", *lines, *more, *fixes]))
