from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from nights import TONIGHT, failed, night, passed

from pytest_exportready.report.junit import write_junit
from pytest_exportready.report.nightly.environment_diff import moved
from pytest_exportready.report.nightly.matrix_legs import channel, with_legs
from pytest_exportready.report.nightly.night import Night, read_history, read_night
from pytest_exportready.report.nightly.observation import Cell


def write(path: Path, days: float, hours: float = 0.0) -> None:
    (run,) = night(days + hours / 24, passed()).runs
    write_junit(run, path)


def test_nights_come_in_the_order_in_which_they_were(tmp_path: Path) -> None:
    for name, days in (("b", 3), ("a", 1), ("c", 9)):
        write(tmp_path / name / "junit.xml", days)
    assert [one.name for one in read_history([tmp_path])] == ["c", "b", "a"]


def test_files_beside_each_other_are_put_together_by_when_they_began(tmp_path: Path) -> None:
    for name, days, hours in (("x", 2, 0), ("y", 2, -3), ("z", 1, 0)):
        write(tmp_path / f"{name}.xml", days, hours)
    assert [len(one.runs) for one in read_history([tmp_path])] == [2, 1]


def test_a_folder_within_is_a_night_with_all_that_is_below(tmp_path: Path) -> None:
    write(tmp_path / "n" / "cpu" / "1.xml", 1)
    write(tmp_path / "n" / "gpu" / "1.xml", 1)
    assert [len(one.runs) for one in read_history([tmp_path])] == [2]


@pytest.mark.parametrize(
    "data",
    [b"", b"<testsuites>", b"\xff\x00", b"<html/>", b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', b"<a>" * 90_000],
)
def test_what_cannot_be_read_is_reported_and_takes_nothing_with_it(tmp_path: Path, data: bytes) -> None:
    write(tmp_path / "good.xml", 1)
    (tmp_path / "bad.xml").write_bytes(data)
    read = read_night(tmp_path)
    assert len(read.runs) == 1
    assert len(read.unread) == 1
    assert "bad.xml" in read.unread[0]


def test_nothing_there(tmp_path: Path) -> None:
    assert read_night(tmp_path).runs == ()
    assert "cannot be read" in read_night(tmp_path / "none.xml").unread[0]
    assert read_history([tmp_path / "none"])[0].runs == ()


@pytest.mark.parametrize("timestamp", ["", "yesterday", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_a_night_without_a_date_is_called_by_its_name(timestamp: str) -> None:
    (run,) = night(0, passed()).runs
    assert Night("n7", (replace(run, timestamp=timestamp),)).date == "n7"


def test_a_zone_counts() -> None:
    (run,) = night(0, passed()).runs
    there = Night("n", (replace(run, timestamp="2026-11-28T04:00:00+02:00"),))
    assert there.began == TONIGHT
    assert there.began - Night("n", (replace(run, timestamp="2026-11-28T01:00:00Z"),)).began == timedelta(hours=1)  # type: ignore[operator]


# -- legs


def both(one: Night, other: Night) -> Night:
    return Night("n", one.runs + other.runs)


def legs(*nights: Night) -> list[list[str]]:
    return [sorted({cell.leg for cell in one.cells}) for one in with_legs(nights)]


def test_shards_are_no_legs() -> None:
    shards = both(night(0, passed("a"), gpu="NVIDIA A100"), night(0, passed("b"), gpu="NVIDIA H200"))
    assert legs(night(1, passed("a"), gpu="NVIDIA H200"), shards) == [[""], [""]]


def test_the_same_cases_on_two_gpus_are_two_legs() -> None:
    tonight = both(night(0, passed(), gpu="NVIDIA A100"), night(0, failed(), gpu="NVIDIA H200"))
    assert legs(night(1, passed(), gpu="NVIDIA H200"), tonight) == [["NVIDIA H200"], ["NVIDIA A100", "NVIDIA H200"]]


def test_a_label_goes_before() -> None:
    labels = {"exportready.leg": "big"}, {"exportready.leg": "small"}
    assert legs(both(night(0, passed(), **labels[0]), night(0, passed(), **labels[1]))) == [["big", "small"]]


def test_labels_do_not_make_legs_of_nights_without() -> None:
    labels = {"exportready.leg": "big", "gpu": "A"}, {"exportready.leg": "small", "gpu": "B"}
    labelled = both(night(0, passed(), **labels[0]), night(0, passed(), **labels[1]))
    assert legs(night(1, passed(), gpu="A"), labelled) == [[""], ["big", "small"]]


def test_legs_of_torch_are_called_alike_every_night() -> None:
    def of(days: int) -> Night:
        return both(night(days, passed()), night(days, passed(), torch="2.15.1+cpu"))

    assert legs(of(1), of(0)) == [["torch 2.15", "torch nightly"]] * 2
    assert [channel(torch) for torch in ("2.16.0a0+gitabc", "", "x")] == ["2.16", "", ""]


def test_a_leg_has_an_environment_of_its_own() -> None:
    (tonight,) = with_legs([both(night(0, passed(), gpu="A"), night(0, failed(), gpu="B"))])
    assert tonight.environment("A")["gpu"] == "A"
    assert tonight.environment()["gpu"] == "A | B"
    assert tonight.cells[Cell("t.py::test_vit", "B")].outcome == "failed"


# -- what moved


def test_what_moved_is_torchs_yours_or_of_the_environment() -> None:
    was = {
        "torch": "2.15.0",
        "torch.planned": "1",
        "commit": "a" * 40,
        "numpy": "2.4",
        "shard": "1/2",
        "exportready.leg": "x",
    }
    now = {
        "torch": "2.16.0",
        "torch.planned": "2",
        "commit": "b" * 40,
        "triton": "3",
        "shard": "2/2",
        "exportready.leg": "y",
    }
    assert [(move.kind, str(move)) for move in moved(was, now)] == [
        ("torch", "torch 2.15.0 -> 2.16.0"),
        ("torch", "torch.planned 1 -> 2"),
        ("yours", "commit aaaaaaaaaa -> bbbbbbbbbb"),
        ("environment", "triton (not recorded) -> 3"),
        ("environment", "numpy 2.4 -> (not recorded)"),
    ]
    assert moved(was, was) == ()
