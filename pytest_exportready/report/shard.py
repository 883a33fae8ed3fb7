"""Shard: one of N parts of a run, the same parts on every machine, of about the same duration each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Shard:
    """Part ``number`` (from 1) of ``of``."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """``2/5`` as a Shard. Raises ValueError, with what is accepted, for anything else."""
        match = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise ValueError(f"{text}: accepted is I/N, such as 2/5, with I from 1 to N")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def share(self, nodeids: Iterable[str], seconds: Mapping[str, float]) -> set[str]:
        """The node ids of this part.

        seconds: what each took in an earlier run, by node id; one that is not there counts as the median. The longest
        is given first, each to the part with the least so far (Graham's LPT rule: no part is longer than 4/3 of the
        best). Every machine with the same node ids and seconds comes to the same parts.
        """
        usual = median(seconds.values()) if seconds else 1.0
        load = [(0.0, part) for part in range(1, self.of + 1)]
        mine = set()
        for duration, nodeid in sorted((-seconds.get(nodeid, usual), nodeid) for nodeid in set(nodeids)):
            taken, part = min(load)
            load[part - 1] = (taken - duration, part)
            if part == self.number:
                mine.add(nodeid)
        return mine


@dataclass(frozen=True)
class RanShard:
    """A shard that was run, and the whole that it is a part of.

    index: from 1. count: of the shards. cases: of the whole. whole: a digest of the cases and the times that the shares
    were made from; shards of different ones do not fit together.
    """

    index: int
    count: int
    cases: int
    whole: str

    @property
    def shard(self) -> Shard:
        return Shard(self.index, self.count)

    def __str__(self) -> str:
        return f"{self.shard} of {self.cases} cases ({self.whole})"
