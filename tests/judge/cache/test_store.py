"""The folder that remembers: whole entries or none, bounded, safe for many processes, never the end of a run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_exportready.judge.cache.store import Store

NAMES = [f"{i:02x}" * 16 for i in range(40)]


def test_what_was_put_is_found_again_by_another(tmp_path: Path) -> None:
    Store(tmp_path).put(NAMES[0], b"ready\n\0")
    assert Store(tmp_path).get(NAMES[0]) == b"ready\n\0"
    assert Store(tmp_path).get(NAMES[1]) is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda held: b"",
        lambda held: held[:-3],
        lambda held: held.replace(b"ready", b"rotten"),
        lambda held: b"[]",
        lambda held: b"\0" * 9,
        lambda held: held + b"\n",
    ],
    ids=["empty", "cut short", "changed", "another form", "zeros", "longer"],
)
def test_a_corrupt_entry_is_dropped_and_reported(spoil: Callable[[bytes], bytes], tmp_path: Path) -> None:
    warnings: list[str] = []
    store = Store(tmp_path, warn=warnings.append)
    store.put(NAMES[0], b"ready")
    (path,) = tmp_path.glob("*/*")
    path.write_bytes(spoil(path.read_bytes()))
    assert store.get(NAMES[0]) is None
    assert not path.exists()
    assert warnings == [f"The corrupt cache entry {NAMES[0]} was dropped."]


def test_an_entry_under_another_name_is_not_believed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(NAMES[0], b"ready")
    (path,) = tmp_path.glob("*/*")
    (tmp_path / NAMES[1][:2]).mkdir()
    path.rename(tmp_path / NAMES[1][:2] / NAMES[1])
    assert store.get(NAMES[1]) is None


def test_those_unused_for_longest_go_first(tmp_path: Path) -> None:
    size = 33 + 10
    store = Store(tmp_path, largest=5 * size)
    for age, name in enumerate(NAMES[:5]):
        store.put(name, b"." * 10)
        (path,) = tmp_path.glob(f"*/{name}")
        os.utime(path, (1000 + age, 1000 + age))
    assert store.get(NAMES[0]) is not None  # used now
    store.put(NAMES[5], b"." * 10)
    assert [name for name in NAMES[:6] if store.get(name) is None] == [NAMES[1]]


def test_what_is_larger_than_all_may_be_is_not_kept_and_costs_no_other(tmp_path: Path) -> None:
    warnings: list[str] = []
    store = Store(tmp_path, largest=1 << 20, warn=warnings.append)
    store.put(NAMES[0], b"small")
    store.put(NAMES[1], b"." * (3 << 20))
    assert (store.get(NAMES[0]), store.get(NAMES[1])) == (b"small", None)
    assert warnings == [f"The cache entry {NAMES[1]} of 3 MiB exceeds --export-ready-cache-mib=1."]


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    warnings: list[str] = []
    store = Store(tmp_path / "file", warn=warnings.append)
    store.put(NAMES[0], b"")
    assert store.get(NAMES[0]) is None
    assert [text.partition(" cannot be ")[2][:7] for text in warnings] == ["written", "read: N"]


def test_many_at_once_leave_whole_entries(tmp_path: Path) -> None:
    def work(seed: int) -> None:
        store = Store(tmp_path, largest=1500)
        for i in range(20):
            name = NAMES[(seed * 7 + i) % len(NAMES)]
            store.put(name, name.encode())
            assert store.get(name) in (None, name.encode())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert sum(path.stat().st_size for path in tmp_path.glob("*/*")) <= 1500
    assert not list(tmp_path.glob("*/.*"))


def test_two_processes_at_once_never_see_half_an_entry(tmp_path: Path) -> None:
    """Each writes megabytes of its own letter under one name and reads what is there: all of one letter."""
    program = (
        "import sys; from pathlib import Path; from pytest_exportready.judge.cache.store import Store\n"
        "folder, letter = Path(sys.argv[1]), sys.argv[2].encode()\n"
        "warnings = []\n"
        "store = Store(folder, warn=warnings.append)\n"
        "for _ in range(40):\n"
        f"    store.put({NAMES[0]!r}, letter * 1_000_000)\n"
        f"    held = store.get({NAMES[0]!r})\n"
        "    assert held in (b'a' * 1_000_000, b'b' * 1_000_000), 'half an entry'\n"
        "assert not warnings, warnings\n"
    )
    both = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path), letter]) for letter in "ab"]
    assert [process.wait(120) for process in both] == [0, 0]
