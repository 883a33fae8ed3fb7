"""Meeting: all ranks get what all gave, also if some are late, were absent once, or do not take part at all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from pytest_exportready.analysis.ranks.exchange import AbsentRanks, Meeting, _Round

RANKS = [0, 1, 2]
LONG = 30.0


def stores(kind: str, folder: Path, size: int) -> list[dist.Store]:
    """The same store as ``size`` ranks see it."""
    if kind == "file":
        return [dist.PrefixStore("p", dist.FileStore(str(folder / "store"), size)) for _ in range(size)]
    if kind == "hash":
        shared = dist.HashStore()
        return [dist.PrefixStore("p", shared) for _ in range(size)]
    master = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    others = [dist.TCPStore("127.0.0.1", master.port, is_master=False) for _ in range(size - 1)]
    return [dist.PrefixStore("p", store) for store in (master, *others)]


@pytest.fixture(params=["file", "hash", "tcp"])
def seen(request: pytest.FixtureRequest, tmp_path: Path) -> list[dist.Store]:
    return stores(request.param, tmp_path, len(RANKS))


def meet(seen: list[dist.Store], rank: int, payload: bytes, seconds: float = LONG, name: str = "n") -> list[bytes]:
    return _Round(name, seen[rank], RANKS, rank, seconds).run(payload)


def at_once(*functions: Callable[[], Any]) -> list[Any]:
    """What each function returned or raised, each in a thread of its own."""
    results: list[Any] = [None] * len(functions)

    def run(position: int) -> None:
        try:
            results[position] = functions[position]()
        except Exception as error:
            results[position] = error

    threads = [threading.Thread(target=run, args=(position,)) for position in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def together(seen: list[dist.Store], payloads: list[bytes], name: str = "n") -> list[Any]:
    return at_once(*(partial(meet, seen, rank, payloads[rank], name=name) for rank in RANKS))


def test_every_rank_gets_what_all_gave(seen: list[dist.Store]) -> None:
    """Bytes of any value and length, empty and several MiB included, again and again; other names do not disturb."""
    rounds = [[bytes([r, 255, 0]) * n for r in RANKS] for n in (0, 1, 100)]
    rounds.append([b"", bytes(range(256)) * 4 * 3000, b"x" * (1 << 20)])
    for number, payloads in enumerate(rounds):
        assert together(seen, payloads, name=f"n{number % 2}") == [payloads] * 3


def test_exchanges_that_follow_each_other_at_once(seen: list[dist.Store]) -> None:
    """A fast rank begins the next one while a slow one still reads the last."""

    def many(rank: int) -> list[list[bytes]]:
        return [meet(seen, rank, b"%d" % number) for number in range(25)]

    assert at_once(*(partial(many, rank) for rank in RANKS)) == [[[b"%d" % n] * 3 for n in range(25)]] * 3


def test_nothing_is_left_behind(seen: list[dist.Store]) -> None:
    """The number of keys does not grow with the exchanges, kept or missed."""
    counts = []
    for number in range(6):
        together(seen, [b"abc"] * 3)
        if number % 2:
            at_once(lambda: meet(seen, 0, b"alone", seconds=0.05), lambda: meet(seen, 1, b"alone", seconds=0.05))
        counts.append(seen[0].num_keys())
    assert counts[5] == counts[3]
    assert counts[4] == counts[2]


def test_absent_ranks_are_named_in_time_to_all_who_came(seen: list[dist.Store]) -> None:
    began = time.monotonic()
    first, second = at_once(lambda: meet(seen, 0, b"a", 0.3), lambda: meet(seen, 1, b"b", LONG))
    for error in (first, second):
        assert isinstance(error, AbsentRanks)
        assert error.ranks == (2,)
        assert "rank 2 did not take part" in str(error)
    assert "another rank stopped waiting" in str(second)
    assert time.monotonic() - began < LONG / 2


def test_a_late_rank_is_not_paired_with_an_older_exchange(seen: list[dist.Store]) -> None:
    """Rank 2 missed one, comes late and waits; the others' next exchange is the one it takes part in."""
    for _ in range(3):
        at_once(lambda: meet(seen, 0, b"old", 0.05), lambda: meet(seen, 1, b"old", 0.05))
    assert together(seen, [b"new0", b"new1", b"new2"]) == [[b"new0", b"new1", b"new2"]] * 3
    with pytest.raises(AbsentRanks) as raised:
        meet(seen, 2, b"late", 0.05)
    assert raised.value.ranks == (0, 1)
    assert together(seen, [b"a", b"b", b"c"]) == [[b"a", b"b", b"c"]] * 3


def test_an_interrupted_rank_does_not_count_twice(seen: list[dist.Store], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while waiting, then the same rank again: it is not taken for another one."""

    def interrupted(self: _Round, deadline: float) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(_Round, "_all_by", interrupted)
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                meet(seen, 0, b"gone")
    assert together(seen, [b"a", b"b", b"c"]) == [[b"a", b"b", b"c"]] * 3


def test_a_store_that_is_gone_is_absence(seen: list[dist.Store], monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 kept the TCPStore and has ended."""

    class Gone:
        def __getattr__(self, name: str) -> Any:
            raise dist.DistNetworkError("Connection reset by peer")

    with pytest.raises(AbsentRanks, match="store does not respond") as raised:
        _Round("n", Gone(), RANKS, 1, LONG).run(b"x")  # type: ignore[arg-type]
    assert raised.value.ranks == (0, 2)


def test_without_a_group() -> None:
    with pytest.raises(ValueError, match="init_process_group"):
        Meeting("n", seconds=1)


def test_many_rounds_with_random_absences(tmp_path: Path) -> None:
    """Each rank comes to some of the meetings only; what it gets is always of one moment, never of an earlier one."""
    seen = stores("hash", tmp_path, 3)
    clock = iter(range(10**6))
    for number in range(40):
        coming = [r for r in RANKS if (number * 7 + r * 3) % 5]
        stamp = f"{next(clock)}".encode()
        seconds = LONG if len(coming) == 3 else 0.02
        got = at_once(*(partial(meet, seen, rank, stamp, seconds) for rank in coming))
        for result in got:
            assert result == [stamp] * 3 if len(coming) == 3 else isinstance(result, AbsentRanks)
