"""Ranks around one table: what each lays down is there for all."""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

from pytest_exportready.analysis.ranks.exchange import exchange


@dataclass(frozen=True)
class Table:
    """One conversation of several steps, which every rank goes through in the same order.

    name: of the conversation. seconds: how long to wait for the others at each step.
    """

    name: str
    group: dist.ProcessGroup | None
    seconds: float

    @property
    def ranks(self) -> list[int]:
        """The ranks of the group, as numbered in the default group, in the order of what ``gather`` returns."""
        return dist.get_process_group_ranks(self.group)

    @property
    def here(self) -> int:
        return dist.get_rank()

    def gather(self, step: str, payload: bytes) -> list[bytes]:
        """Raises AbsentRanks."""
        return exchange(f"{self.name}/{step}", payload, group=self.group, seconds=self.seconds)

    def gather_json(self, step: str, data: Any) -> list[Any]:
        """Raises AbsentRanks."""
        packed = zlib.compress(json.dumps(data).encode(), 1)
        return [json.loads(zlib.decompress(payload)) for payload in self.gather(step, packed)]

    def gather_where_different(self, step: str, data: Any) -> list[Any] | None:
        """What each rank has; None when all have the same, which costs no more than a hash.

        Of ranks that have the same, one sends it for all: the traffic grows with the disagreement, not with the world.
        Raises AbsentRanks.
        """
        text = json.dumps(data).encode()
        digests = self.gather(f"{step}/digest", hashlib.sha256(text).digest())
        if len(set(digests)) == 1:
            return None
        speakers = {digest: digests.index(digest) for digest in digests}
        speaks = self.ranks.index(self.here) in speakers.values()
        said = self.gather(step, zlib.compress(text, 1) if speaks else b"")
        return [json.loads(zlib.decompress(said[speakers[digest]])) for digest in digests]
