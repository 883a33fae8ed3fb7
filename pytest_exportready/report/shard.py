"""One of N parts of a run: the same parts on every machine, each of about the same duration."""

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
        """Return the shard of a text such as ``2/5``.

        Raises:
            ValueError: The text has another form.
        """
        match = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise ValueError(f"{text} is not a shard; use I/N, such as 2/5, with I from 1 to N")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def share(self, nodeids: Iterable[str], seconds: Mapping[str, float]) -> set[str]:
        """Return the node ids of this part, the same on every machine with the same arguments.

        The longest case is assigned first, each to the part with the least time so far (Graham's LPT rule: no part is
        longer than 4/3 of the optimum).

        Args:
            seconds: Duration in an earlier run by node id; the median is used for the others.
        """
        usual = median(seconds.values()) if seconds else 1.0
        load = [(0.0, part) for part in range(1, self.of + 1)]
        share = set()
        for duration, nodeid in sorted((-seconds.get(nodeid, usual), nodeid) for nodeid in set(nodeids)):
            taken, part = min(load)
            load[part - 1] = (taken - duration, part)
            if part == self.number:
                share.add(nodeid)
        return share


@dataclass(frozen=True)
class RanShard:
    """A shard that was run, and the whole that it is a part of."""

    index: int  # from 1
    count: int  # of the shards
    cases: int  # of the whole
    whole: str  # digest of the cases and times from which shares are made; equal in shards that fit together

    @property
    def shard(self) -> Shard:
        return Shard(self.index, self.count)

    def __str__(self) -> str:
        return f"{self.shard} of {self.cases} cases ({self.whole})"
