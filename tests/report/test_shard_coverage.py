"""A shard that is missing is told and never green; shards that are all there are told of nothing."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pytest_exportready.case.readiness import Readiness, StageResult
from pytest_exportready.report.junit import read_junit, write_junit
from pytest_exportready.report.run import Run, TestResult

RECORD = Readiness("vit", "plain", (StageResult("export", "passed"),), ())


def left(folder: Path, number: int, of: int = 3, whole: str = "abc", torch: str = "2.14.1", name: str = "") -> Path:
    path = folder / f"{name or torch}-{number}.xml"
    case = TestResult(f"t.py::test_{number}", "t", f"test_{number}", readiness=RECORD)
    told = {"torch": torch, "shard": f"{number}/{of} of 9 cases ({whole})"}
    write_junit(Run((case,), told), path)
    return path


def told(run: Run) -> dict[str, str]:
    return {result.name: result.outcome for result in run.results if result.classname == "exportready.shards"}


def test_all_of_them_in_any_order(tmp_path: Path) -> None:
    paths = [left(tmp_path, number, 12) for number in range(1, 13)]
    random.Random(0).shuffle(paths)
    run = read_junit(*paths)
    assert told(run) == {}
    assert run.state == "ready"


def test_a_missing_one_is_named_and_never_green(tmp_path: Path) -> None:
    run = read_junit(left(tmp_path, 1), left(tmp_path, 3))
    assert told(run) == {"shard 2/3": "missing"}
    assert run.state == "can't tell"
    assert "shard 2/3" in run.verdict


def test_one_alone_is_what_was_asked_for(tmp_path: Path) -> None:
    assert told(read_junit(left(tmp_path, 2))) == {}


@pytest.mark.parametrize("whole", ["abc", "def"], ids=["of one whole", "each of its own"])
def test_legs_have_all_shards_each(tmp_path: Path, whole: str) -> None:
    stable = [left(tmp_path, number) for number in (1, 2, 3)]
    nightly = [left(tmp_path, number, whole=whole, torch="2.16.0.dev1") for number in (1, 2, 3)]
    assert told(read_junit(*stable, *nightly)) == {}
    assert told(read_junit(*stable, *nightly[1:])) == {"shard 1/3": "missing"}


def test_one_that_ran_twice_makes_no_other_missing(tmp_path: Path) -> None:
    assert told(read_junit(*[left(tmp_path, number) for number in (1, 2, 3)], left(tmp_path, 2, name="again"))) == {}


def test_parts_of_different_wholes_are_no_verdict(tmp_path: Path) -> None:
    run = read_junit(left(tmp_path, 1), left(tmp_path, 2, whole="def"), left(tmp_path, 3))
    assert told(run) == {"shards of 3": "infra"}
    assert run.state == "can't tell"
    assert "--export-ready-shard-times" in run.worst_first[0].message


def test_merged_shards_are_read_as_all_that_they_are(tmp_path: Path) -> None:
    both = read_junit(left(tmp_path, 1), left(tmp_path, 2))
    assert told(both) == {"shard 3/3": "missing"}
    write_junit(Run(both.results[:2], both.properties), tmp_path / "both.xml")
    assert told(read_junit(tmp_path / "both.xml", left(tmp_path, 3))) == {}


def test_more_shards_than_their_property_has_room_for(tmp_path: Path) -> None:
    first = read_junit(*[left(tmp_path, number, 40) for number in range(1, 40)])
    write_junit(Run(first.results[:39], first.properties), tmp_path / "both.xml")
    assert told(read_junit(tmp_path / "both.xml", left(tmp_path, 40, 40))) == {}


@pytest.mark.parametrize("text", ["", "1/2", "0/2 of 9 cases (abc)", "3/2 of 9 cases (abc)", "x" * 600, "9/9999 of 1"])
def test_what_is_no_shard_says_nothing(tmp_path: Path, text: str) -> None:
    for name in "ab":
        write_junit(Run((TestResult(f"t::{name}", "t", name, readiness=RECORD),), {"shard": text}), tmp_path / name)
    assert told(read_junit(tmp_path / "a", tmp_path / "b")) == {}
