"""The folder that remembers: whole entries or none, bounded, safe for many processes, never the end of a run."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_exportready.cache.store import Store

KEYS = [f"{i:02x}" * 16 for i in range(40)]


def test_what_was_put_is_found_again_by_another(tmp_path: Path) -> None:
    Store(tmp_path).put(KEYS[0], {"ready": True})
    assert Store(tmp_path).get(KEYS[0]) == {"ready": True}
    assert Store(tmp_path).get(KEYS[1]) is None


@pytest.mark.parametrize(
    "spoil",
    [lambda t: "", lambda t: t[:-3], lambda t: t.replace("true", "null"), lambda t: "[]", lambda t: "\x00" * 9],
    ids=["empty", "cut short", "changed", "another form", "zeros"],
)  # fmt: skip
def test_a_corrupt_entry_is_dropped_and_told(spoil, tmp_path: Path) -> None:
    told: list[str] = []
    store = Store(tmp_path, tell=told.append)
    store.put(KEYS[0], {"ready": True})
    (path,) = tmp_path.glob("*/*.json")
    path.write_text(spoil(path.read_text()))
    assert store.get(KEYS[0]) is None
    assert not path.exists()
    assert len(told) == 1
    assert told[0].startswith("the corrupt entry")


def test_an_entry_under_another_key_is_not_believed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(KEYS[0], {"ready": True})
    (path,) = tmp_path.glob("*/*.json")
    (tmp_path / KEYS[1][:2]).mkdir()
    path.rename(tmp_path / KEYS[1][:2] / f"{KEYS[1]}.json")
    assert store.get(KEYS[1]) is None


def test_those_unused_for_longest_go_first(tmp_path: Path) -> None:
    size = len(json.dumps({"checksum": "0" * 32, "content": {"n": 10}}))
    store = Store(tmp_path, largest=5 * size)
    for age, key in enumerate(KEYS[:5]):
        store.put(key, {"n": 10 + age})
        (path,) = tmp_path.glob(f"*/{key}.json")
        os.utime(path, (1000 + age, 1000 + age))
    assert store.get(KEYS[0]) is not None  # used now
    store.put(KEYS[5], {"n": 15})
    assert [key for key in KEYS[:6] if store.get(key) is None] == [KEYS[1]]


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    told: list[str] = []
    store = Store(tmp_path / "file", tell=told.append)
    store.put(KEYS[0], {})
    assert store.get(KEYS[0]) is None
    assert [text.partition(" cannot be ")[2][:7] for text in told] == ["written", "read (N"]


def test_many_at_once_leave_whole_entries(tmp_path: Path) -> None:
    def work(seed: int) -> None:
        store = Store(tmp_path, largest=1500)
        for i in range(20):
            key = KEYS[(seed * 7 + i) % len(KEYS)]
            store.put(key, {"key": key})
            assert store.get(key) in (None, {"key": key})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert sum(path.stat().st_size for path in tmp_path.glob("*/*.json")) <= 1500
    assert not list(tmp_path.glob("*/.*"))
