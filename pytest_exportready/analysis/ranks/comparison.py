"""Find where the states of ranks differ: one Difference for each cause, with the majority first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from pytest_exportready.analysis.ranks.rank_state import CLASS, ORDER, SHAPE, VALUES, Facts
from pytest_exportready.analysis.ranks.state_hash import is_hash
from pytest_exportready.case.wording import and_more, named_ranks

PRESENCE = "presence"
_EXPLAIN_VALUES = {PRESENCE, SHAPE, "dtype", "layout", "placements"}  # a hash cannot be the same when these differ
_GROUPS = 4  # groups of ranks that a message names


@dataclass(frozen=True)
class Difference:
    """One field of one tensor or module that is not the same on all ranks."""

    where: str  # qualified name of the tensor or module
    field: str
    values: dict[int, str]  # by rank
    kind: str = ""  # such as ``parameter``; empty for a module

    @cached_property
    def groups(self) -> list[tuple[str, list[int]]]:
        """Each value and the ranks that have it, the largest group first; of equal ones that of the lowest rank."""
        found: dict[str, list[int]] = {}
        for rank, value in sorted(self.values.items()):
            found.setdefault(value, []).append(rank)
        return sorted(found.items(), key=lambda group: (-len(group[1]), group[1][0]))

    @property
    def reference(self) -> int:
        """The rank that the others are compared with: the lowest of the largest group."""
        return self.groups[0][1][0]

    @property
    def odd(self) -> list[int]:
        """The ranks that differ from the reference."""
        return [rank for _, ranks in self.groups[1:] for rank in ranks]

    @property
    def culprit(self) -> int | None:
        """The one rank that differs from all others; None if there are several, or only two ranks."""
        return self.odd[0] if len(self.odd) == 1 and len(self.values) > 2 else None

    @property
    def subject(self) -> str:
        return f"This {self.kind or 'module'}"

    @property
    def summary(self) -> str:
        """``differs in mode: eval on ranks 0, 2, training on rank 1``; of hashes, which ranks differ."""
        groups = self.groups[:_GROUPS]
        if all(is_hash(value) for value, _ in groups):
            sides = and_more([named_ranks(ranks) for _, ranks in groups], len(self.groups), " and ")
            return f"differs in {self.field} between {sides}"
        each = [f"{'other' if is_hash(value) else value} on {named_ranks(ranks)}" for value, ranks in groups]
        verb = "is" if self.field == PRESENCE else f"differs in {self.field}:"
        return f"{verb} {and_more(each, len(self.groups))}"


def differences(facts: Sequence[Facts], ranks: Sequence[int]) -> list[Difference]:
    """Return every difference between ``facts[i]`` of ``ranks[i]``, in the order of the first rank's names.

    What follows from another difference is left out: the fields of what some ranks lack, what is inside a module that
    they lack or that has another class, the hash of values of another shape or dtype.
    """
    found: list[Difference] = []
    missing: set[str] = set()
    for where in dict.fromkeys(name for each in facts for name in each):
        if _parents(where) & missing:
            continue
        here = list(_at(where, facts, ranks))
        if any(difference.field in (PRESENCE, CLASS) for difference in here):
            missing.add(where)
        found += here
    if any(difference.field == PRESENCE for difference in found):
        found = [difference for difference in found if difference.field != ORDER]
    return found


def _at(where: str, facts: Sequence[Facts], ranks: Sequence[int]) -> Iterable[Difference]:
    have = {rank: each[where] for rank, each in zip(ranks, facts, strict=True) if where in each}
    kind = next(iter(have.values())).get("kind", "")
    if len(have) < len(ranks):
        yield Difference(where, PRESENCE, {rank: "present" if rank in have else "absent" for rank in ranks}, kind)
    differing = {}
    for field in dict.fromkeys(field for each in have.values() for field in each):
        values = {rank: each.get(field, "none") for rank, each in have.items()}
        if len(set(values.values())) > 1:
            differing[field] = Difference(where, field, values, kind)
    if SHAPE in differing:
        differing.pop("stride", None)
    if differing.keys() & _EXPLAIN_VALUES or ("device" in differing and _unread(differing.get(VALUES))):
        differing.pop(VALUES, None)
    yield from differing.values()


def _unread(difference: Difference | None) -> bool:
    return difference is not None and not all(is_hash(value) for value in difference.values.values())


def _parents(where: str) -> set[str]:
    parts = where.split(".")
    return {".".join(parts[:depth]) for depth in range(1, len(parts))}
