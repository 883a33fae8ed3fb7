"""Every rank gives bytes and gets those of all, through keys of the group's store and never through a collective.

A collective that one rank leaves out blocks the others, or takes part in the next collective of that rank. Keys do
neither, so this works between ranks that diverge already.

The ranks meet in rounds. A round is over as soon as all have joined it, or one has given up waiting; whoever joins
later finds it over and opens the next. So a rank that comes late, or that was absent once, is never paired with
what others said in an earlier round.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

import torch.distributed as dist
from torch.distributed import Store  # type: ignore[attr-defined]

from pytest_exportready.case.wording import few

_CHUNK = 1 << 20  # a TCPStore closes the connection at 8 MiB
_GRACE = 1.0  # seconds for the bytes of ranks that have all joined in time
_OVER = 1 << 40  # added to the number of ranks that joined, by one that gives up
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.002, 0.05  # seconds between two looks at the store


class AbsentRanks(RuntimeError):
    """Some ranks did not take part in time. ranks: theirs in the default group, ascending."""

    def __init__(self, ranks: Sequence[int], seconds: float, why: str = "") -> None:
        self.ranks = tuple(ranks)
        named = f"rank{'s' * (len(self.ranks) > 1)} {few(map(str, self.ranks), 8)}"
        super().__init__(f"{named} did not take part within {seconds:g} s{why and f' ({why})'}")


def exchange(name: str, payload: bytes, *, group: dist.ProcessGroup | None = None, seconds: float) -> list[bytes]:
    """What each rank of ``group`` gave under ``name``, in the order of its ranks.

    Every rank of the group calls it, each within ``seconds`` of the first; MiB are fine. Exchanges of one name that
    follow each other are kept apart.

    group: the default group unless given.
    Raises AbsentRanks, at the latest a second after ``seconds``, in every rank that did come; ValueError in a
    process that has no such group or is not in it.
    """
    return Meeting(name, group).exchange(payload, seconds)


class Meeting:
    """The ranks of a group and its store, which serve for one exchange after another, the group being there or not.

    Raises ValueError in a process that has no such group or is not in it.
    """

    def __init__(self, name: str, group: dist.ProcessGroup | None = None) -> None:
        group = group or dist.group.WORLD
        if group is None or not dist.is_initialized():
            raise ValueError(
                "torch.distributed has no process group here. Fix: torch.distributed.init_process_group(...)"
            )
        self.name = name
        self.here = dist.get_rank(group)
        if self.here < 0:
            raise ValueError("this process is not in the group. Fix: call it on the ranks of the group only")
        self.ranks = dist.get_process_group_ranks(group)
        self._fake = dist.get_backend(group) == "fake"  # one process that plays a rank of many
        self._store = group.get_group_store()

    def exchange(self, payload: bytes, seconds: float) -> list[bytes]:
        """As the function ``exchange``."""
        if len(self.ranks) == 1:
            return [payload]
        if self._fake:
            others = [rank for position, rank in enumerate(self.ranks) if position != self.here]
            raise AbsentRanks(others, 0.0, "the backend is fake")
        return _Round(self.name, self._store, self.ranks, self.here, seconds).run(payload)


class _Round:
    """One rank in one exchange."""

    def __init__(self, name: str, store: Store, ranks: list[int], here: int, seconds: float) -> None:
        self.name, self.store, self.ranks, self.here, self.seconds = name, store, ranks, here, seconds
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
            raise AbsentRanks(self._missing(), self.seconds, "the group's store does not answer") from error
        except BaseException:
            self._leave()
            raise

    def _join(self) -> int:
        number = int(self.store.add(self._key("round"), 0))
        while self.store.add(self._key(number, "joined"), 1) > len(self.ranks):
            number += 1
        return number

    def _give(self, payload: bytes) -> None:
        """The number of pieces last: who finds it finds all."""
        pieces = [payload[start : start + _CHUNK] for start in range(0, len(payload), _CHUNK)]
        self.pieces[self.here] = len(pieces)
        for position, piece in enumerate(pieces):
            _set(self.store, self._key(self.round, self.here, position), piece)
        _set(self.store, self._key(self.round, self.here), str(len(pieces)).encode())

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
        absent = [rank for rank in range(len(self.ranks)) if rank != self.here]
        with suppress(RuntimeError, OSError):
            absent = [rank for rank in absent if not self.store.check([self._key(self.round, rank)])]
        return [self.ranks[rank] for rank in absent]

    def _give_up(self) -> int:
        """End the round; how many ranks had joined it."""
        joined = int(self.store.add(self._key(self.round, "joined"), _OVER)) - _OVER
        if 0 < joined < len(self.ranks):
            _set(self.store, self._key(self.round, "over"), " ".join(map(str, self._missing())).encode())
            self._next_round()
        return joined % _OVER

    def _leave(self) -> None:
        """Also after an interrupt: this rank may come again, and must not count twice in one round."""
        with suppress(RuntimeError, OSError):
            if self.round >= 0:
                self._give_up()
                self._clean(self.here)

    def _clean_all(self) -> None:
        """The last reader takes away what all have read."""
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
        """Where ranks that join from now on begin to look; they never look two rounds back."""
        number = self.store.add(self._key("round"), 1)
        for key in ("joined", "over"):
            self.store.delete_key(self._key(number - 2, key))

    def _key(self, *parts: object) -> str:
        return "/".join(["exportready", self.name, *map(str, parts)])


def _set(store: Store, key: str, value: bytes) -> None:
    store.set(key, value)  # type: ignore[arg-type]  # annotated as str; torch's own code passes bytes
