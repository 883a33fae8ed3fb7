"""Exchange bytes between ranks through keys of the group's store, and never through a collective.

A collective that one rank skips blocks the others, or is paired with the next collective of that rank. Keys do
neither, so this works between ranks that have diverged.

The ranks meet in rounds. A round ends as soon as all have joined it or one has stopped waiting; a rank that joins
later finds it ended and opens the next. So a rank that is late, or was absent once, is never paired with what others
sent in an earlier round. The stores of ``torch.distributed.elastic`` have neither rounds nor late ranks.
"""

from __future__ import annotations

import hashlib
import json
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch.distributed as dist
from torch.distributed import Store  # type: ignore[attr-defined]

from pytest_exportready.case.explained import ExplainedError
from pytest_exportready.case.wording import named_ranks

_CHUNK = 1 << 20  # a TCPStore closes the connection at 8 MiB
_GRACE = 1.0  # seconds for the bytes of ranks that have all joined in time
_OVER = 1 << 40  # added to the number of ranks that joined, by one that stops waiting
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.002, 0.05  # seconds between two reads of the store


class NotInGroup(ExplainedError, ValueError):
    """This process has no process group, or is not in the one that was given."""


class AbsentRanks(RuntimeError):
    """Some ranks did not take part in time."""

    def __init__(self, ranks: Sequence[int], seconds: float, why: str = "") -> None:
        self.ranks = tuple(ranks)  # as numbered in the default group, ascending
        reason = f" ({why})" if why else ""
        super().__init__(f"{named_ranks(self.ranks)} did not take part within {seconds:g} s{reason}")


class Meeting:
    """The ranks of a group, which exchange data in steps that all go through in the same order.

    It works also after this process has left the group.

    Args:
        name: Exchanges of other names, and of other steps, do not disturb.
        group: The default group if None.
        seconds: How long to wait for the others at each step.

    Raises:
        NotInGroup: This process has no such group, or is not in it.
    """

    def __init__(self, name: str, group: dist.ProcessGroup | None = None, *, seconds: float) -> None:
        group = group or dist.group.WORLD
        if group is None or not dist.is_initialized():
            raise NotInGroup(
                "torch.distributed has no process group here", "Call `torch.distributed.init_process_group(...)` first."
            )
        self._position = dist.get_rank(group)
        if self._position < 0:
            raise NotInGroup("this process is not in the group", "Call it on the ranks of the group only.")
        self.name, self.seconds = name, seconds
        self.ranks = dist.get_process_group_ranks(group)  # as numbered in the default group
        self.rank = self.ranks[self._position]
        self._fake = dist.get_backend(group) == "fake"  # one process that plays a rank of many
        self._store = group.get_group_store()

    @property
    def is_first(self) -> bool:
        """Whether this is the first rank of the group."""
        return self._position == 0

    def gather(self, step: str, payload: bytes) -> list[bytes]:
        """Return what each rank gives, in the order of ``ranks``. Several MiB are fine.

        Raises:
            AbsentRanks: In every rank that did come, at most a second after ``seconds``.
        """
        if len(self.ranks) == 1:
            return [payload]
        if self._fake:
            raise AbsentRanks([rank for rank in self.ranks if rank != self.rank], 0.0, "the backend is fake")
        name = f"{self.name}/{step}"
        return _Round(name, self._store, self.ranks, self._position, self.seconds).run(payload)

    def gather_json(self, step: str, data: Any) -> list[Any]:
        packed = zlib.compress(json.dumps(data).encode(), 1)
        return [json.loads(zlib.decompress(payload)) for payload in self.gather(step, packed)]

    def gather_where_different(self, step: str, data: Any) -> list[Any] | None:
        """Return what each rank has; None if all have the same, which costs no more than a hash.

        Of ranks that have the same, one sends it for all: the traffic grows with the differences, not with the ranks.
        """
        text = json.dumps(data).encode()
        digests = self.gather(f"{step}/digest", hashlib.sha256(text).digest())
        if len(set(digests)) == 1:
            return None
        senders = {digest: digests.index(digest) for digest in digests}
        sends = self._position in senders.values()
        sent = self.gather(step, zlib.compress(text, 1) if sends else b"")
        return [json.loads(zlib.decompress(sent[senders[digest]])) for digest in digests]


class _Round:
    """One rank in one exchange."""

    def __init__(self, name: str, store: Store, ranks: list[int], position: int, seconds: float) -> None:
        self.name, self.store, self.ranks, self.position, self.seconds = name, store, ranks, position, seconds
        self.deadline = time.monotonic() + seconds
        self.round = -1
        self.pieces: dict[int, int] = {}  # how many keys hold the bytes of each rank

    def run(self, payload: bytes) -> list[bytes]:
        try:
            self.round = self._join()
            self._give(payload)
            self._await_all()
            taken = [self._take(rank) for rank in range(len(self.ranks))]
            self._clean_all()
            return taken
        except (RuntimeError, OSError) as error:
            self._leave()
            if isinstance(error, AbsentRanks):
                raise
            raise AbsentRanks(self._missing(), self.seconds, "the group's store does not respond") from error
        except BaseException:
            self._leave()
            raise

    def _join(self) -> int:
        number = int(self.store.add(self._key("round"), 0))
        while self.store.add(self._key(number, "joined"), 1) > len(self.ranks):
            number += 1
        return number

    def _give(self, payload: bytes) -> None:
        """Write the number of pieces last: a rank that finds it finds all."""
        pieces = [payload[start : start + _CHUNK] for start in range(0, len(payload), _CHUNK)]
        self.pieces[self.position] = len(pieces)
        for position, piece in enumerate(pieces):
            _set(self.store, self._key(self.round, self.position, position), piece)
        _set(self.store, self._key(self.round, self.position), str(len(pieces)).encode())

    def _await_all(self) -> None:
        if self._all_by(self.deadline):
            return
        if self._give_up() == len(self.ranks) and self._all_by(self.deadline + _GRACE):
            return
        raise AbsentRanks(self._missing(), self.seconds)

    def _all_by(self, deadline: float) -> bool:
        every = [self._key(self.round, rank) for rank in range(len(self.ranks))]
        over = self._key(self.round, "over")
        pause = _SHORTEST_PAUSE
        while not self.store.check(every):
            if self.store.check([over]):
                absent = [int(rank) for rank in self.store.get(over).split()]
                raise AbsentRanks(absent, self.seconds, "another rank stopped waiting")
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)
        return True

    def _take(self, rank: int) -> bytes:
        self.pieces[rank] = int(self.store.get(self._key(self.round, rank)))
        keys = [self._key(self.round, rank, position) for position in range(self.pieces[rank])]
        return b"".join(self.store.get(key) for key in keys)

    def _missing(self) -> list[int]:
        absent = [rank for rank in range(len(self.ranks)) if rank != self.position]
        with suppress(RuntimeError, OSError):
            absent = [rank for rank in absent if not self.store.check([self._key(self.round, rank)])]
        return [self.ranks[rank] for rank in absent]

    def _give_up(self) -> int:
        """End the round, and return how many ranks had joined it."""
        joined = int(self.store.add(self._key(self.round, "joined"), _OVER)) - _OVER
        if 0 < joined < len(self.ranks):
            _set(self.store, self._key(self.round, "over"), " ".join(map(str, self._missing())).encode())
            self._next_round()
        return joined % _OVER

    def _leave(self) -> None:
        """Leave the round, also after an interrupt: this rank may come again, and must not count twice."""
        with suppress(RuntimeError, OSError):
            if self.round >= 0:
                self._give_up()
                self._clean(self.position)

    def _clean_all(self) -> None:
        """Delete what all have read, if this rank is the last to read."""
        if self.store.add(self._key(self.round, "read"), 1) == len(self.ranks):
            for rank in self.pieces:
                self._clean(rank)
            self.store.delete_key(self._key(self.round, "read"))
            self._next_round()

    def _clean(self, rank: int) -> None:
        self.store.delete_key(self._key(self.round, rank))
        for position in range(self.pieces.get(rank, 0)):
            self.store.delete_key(self._key(self.round, rank, position))

    def _next_round(self) -> None:
        """Move the round at which ranks that join begin to look; they never look two rounds back."""
        number = self.store.add(self._key("round"), 1)
        for key in ("joined", "over"):
            self.store.delete_key(self._key(number - 2, key))

    def _key(self, *parts: object) -> str:
        return "/".join(["exportready", self.name, *map(str, parts)])


def _set(store: Store, key: str, value: bytes) -> None:
    store.set(key, value)  # type: ignore[arg-type]  # annotated as str; torch's own code passes bytes
