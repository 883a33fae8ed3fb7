"""A missing shard is reported and never green; complete shards are not reported."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_exportready.case.readiness import Readiness, StageResult
from pytest_exportready.report.junit import read_junit, write_junit
from pytest_exportready.report.run import Run, TestResult
from pytest_exportready.report.shard import RanShard

RECORD = Readiness("vit", "plain", (StageResult("export", "passed"),), ())


def left(folder: Path, number: int, of: int = 3, whole: str = "abc", torch: str = "2.14.1", name: str = "") -> Path:
    path = folder / f"{name or torch}-{number}.xml"
    case = TestResult(f"t.py::test_{number}", "t", f"test_{number}", readiness=RECORD)
    write_junit(Run((case,), {"torch": torch}, shards=(RanShard(number, of, 9, whole),)), path)
    return path


def problems(run: Run) -> dict[str, str]:
    return {result.name: result.outcome for result in run.results if result.classname == "exportready.shards"}


def test_all_of_them_in_any_order(tmp_path: Path) -> None:
    paths = [left(tmp_path, number, 12) for number in range(1, 13)]
    random.Random(0).shuffle(paths)
    run = read_junit(*paths)
    assert problems(run) == {}
    assert run.state == "ready"


def test_a_missing_one_is_named_and_never_green(tmp_path: Path) -> None:
    run = read_junit(left(tmp_path, 1), left(tmp_path, 3))
    assert problems(run) == {"shard 2/3": "missing"}
    assert run.state == "inconclusive"
    assert "shard 2/3" in run.verdict


def test_one_alone_is_what_was_asked_for(tmp_path: Path) -> None:
    assert problems(read_junit(left(tmp_path, 2))) == {}


@pytest.mark.parametrize("whole", ["abc", "def"], ids=["of one whole", "each of its own"])
def test_legs_have_all_shards_each(tmp_path: Path, whole: str) -> None:
    stable = [left(tmp_path, number) for number in (1, 2, 3)]
    nightly = [left(tmp_path, number, whole=whole, torch="2.16.0.dev1") for number in (1, 2, 3)]
    assert problems(read_junit(*stable, *nightly)) == {}
    assert problems(read_junit(*stable, *nightly[1:])) == {"shard 1/3": "missing"}


def test_one_that_ran_twice_makes_no_other_missing(tmp_path: Path) -> None:
    assert (
        problems(read_junit(*[left(tmp_path, number) for number in (1, 2, 3)], left(tmp_path, 2, name="again"))) == {}
    )


def test_parts_of_different_wholes_are_no_verdict(tmp_path: Path) -> None:
    run = read_junit(left(tmp_path, 1), left(tmp_path, 2, whole="def"), left(tmp_path, 3))
    assert problems(run) == {"shards of 3": "infra"}
    assert run.state == "inconclusive"
    assert "--export-ready-shard-times" in run.worst_first[0].message


def test_merged_shards_are_read_as_all_that_they_are(tmp_path: Path) -> None:
    both = read_junit(left(tmp_path, 1), left(tmp_path, 2))
    assert problems(both) == {"shard 3/3": "missing"}
    write_junit(replace(both, results=both.results[:2]), tmp_path / "both.xml")
    assert problems(read_junit(tmp_path / "both.xml", left(tmp_path, 3))) == {}


def test_many_shards_in_one_file(tmp_path: Path) -> None:
    first = read_junit(*[left(tmp_path, number, 40) for number in range(1, 40)])
    write_junit(replace(first, results=first.results[:39]), tmp_path / "both.xml")
    assert problems(read_junit(tmp_path / "both.xml", left(tmp_path, 40, 40))) == {}
    assert problems(read_junit(tmp_path / "both.xml", left(tmp_path, 39, 40))) == {"shard 40/40": "missing"}


def test_what_ran_reads_back_as_data(tmp_path: Path) -> None:
    (shard,) = read_junit(left(tmp_path, 2)).shards
    assert shard == RanShard(2, 3, 9, "abc")
    assert read_junit(left(tmp_path, 2)).environment == {"torch": "2.14.1", "shard": "2/3 of 9 cases (abc)"}


@pytest.mark.parametrize(
    "properties",
    [
        {"shard": "1/2 of 9 cases (abc)"},
        {"exportready.shard.1.index": "1"},
        {"exportready.shard.1.index": "1", "exportready.shard.1.count": "999999999", "exportready.shard.1.cases": "9"},
        {"exportready.shard.1.index": "3", "exportready.shard.1.count": "2", "exportready.shard.1.cases": "9"},
        {"exportready.shard.1.index": "1", "exportready.shard.1.count": "2", "exportready.shard.1.cases": "many"},
    ],
    ids=["of an earlier version", "cut", "too many", "no part", "no number"],
)
def test_what_is_no_shard_says_nothing(tmp_path: Path, properties: dict[str, str]) -> None:
    for name in "ab":
        write_junit(Run((TestResult(f"t::{name}", "t", name, readiness=RECORD),), properties), tmp_path / name)
    run = read_junit(tmp_path / "a", tmp_path / "b")
    assert run.shards == ()
    assert problems(run) == {}
    assert run.state == "ready"
