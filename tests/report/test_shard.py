from __future__ import annotations

import random

import pytest

from pytest_exportready.report.shard import Shard


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "1/0", "-1/2", "1/2/3", "a/b", "1 / 2", "1/99999", "\u0661/2"])
def test_what_is_no_shard_is_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(ValueError, match="use I/N, such as 2/5, with I from 1 to N"):
        Shard.parse(text)


def test_reads_what_it_writes() -> None:
    assert str(Shard.parse("2/5")) == "2/5"
    assert Shard.parse("2/5") == Shard(2, 5)


@pytest.mark.parametrize("of", [1, 2, 3, 7, 50])
@pytest.mark.parametrize("known", [0, 10, 23])
def test_every_case_is_in_exactly_one_part_whatever_the_order(of: int, known: int) -> None:
    generator = random.Random(of * 100 + known)
    nodeids = [f"test_models.py::test_case[{number}]" for number in range(23)]
    seconds = {nodeid: generator.expovariate(0.1) for nodeid in nodeids[:known]}
    parts = []
    for number in range(1, of + 1):
        shuffled = generator.sample(nodeids, len(nodeids))
        parts.append(Shard(number, of).share(shuffled, dict(reversed(seconds.items()))))
    assert sum(map(len, parts)) == len(nodeids)
    assert set().union(*parts) == set(nodeids)


def test_parts_take_about_as_long_each() -> None:
    generator = random.Random(0)
    seconds = {f"t.py::{number}": generator.expovariate(0.1) for number in range(200)}
    loads = [sum(seconds[nodeid] for nodeid in Shard(part, 4).share(seconds, seconds)) for part in (1, 2, 3, 4)]
    assert max(loads) <= 1.02 * sum(loads) / 4


def test_without_times_the_parts_are_equally_many() -> None:
    nodeids = [f"t.py::{number}" for number in range(10)]
    assert [len(Shard(part, 3).share(nodeids, {})) for part in (1, 2, 3)] == [4, 3, 3]


def test_a_new_case_counts_as_the_median() -> None:
    seconds = {"a": 10.0, "b": 10.0, "c": 10.0}
    parts = [Shard(part, 2).share([*seconds, "new"], seconds) for part in (1, 2)]
    assert [len(part) for part in parts] == [2, 2]
