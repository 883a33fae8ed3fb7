"""What two weeks of nights tell the next: the torch that was good, how long cases take; damage tells nothing."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from pytest_exportready.case.readiness import Readiness, StageResult
from pytest_exportready.report.github.artifacts import Gathered
from pytest_exportready.report.github.history import keep, last_good, nights, times
from pytest_exportready.report.run import Outcome, Run, TestResult

FIRST = datetime(2026, 11, 1, 3, 17, tzinfo=timezone.utc)


def night(outcome: Outcome, number: int, channel: str = "nightly", runner: str = "cpu") -> Gathered:
    record = Readiness("a", "plain", (StageResult("export", "passed" if outcome == "passed" else "failed"),), ())
    known = record if outcome in ("passed", "failed") else None
    result = TestResult("t.py::a", "t", "a", outcome=outcome, seconds=1.0, readiness=known)
    run = Run((result,), properties={"torch": f"2.16.0.dev{number}+cpu"})
    return Gathered(channel, runner, run, ())


def history(tmp_path: Path, *outcomes: Outcome) -> Path:
    for number, outcome in enumerate(outcomes, 1):
        keep([night(outcome, number)], tmp_path, FIRST + timedelta(days=number))
    return tmp_path


def test_only_the_last_nights_stay(tmp_path: Path) -> None:
    history(tmp_path, *["passed"] * 20)
    names = [path.name for path in nights(tmp_path, "nightly")]
    assert names == [f"2026-11-{day:02}T0317" for day in range(8, 22)]
    assert nights(tmp_path, "stable") == []


@pytest.mark.parametrize(
    ("outcomes", "version"),
    [
        pytest.param([], "", id="no night"),
        pytest.param(["passed", "passed"], "2.16.0.dev2", id="the last"),
        pytest.param(["passed", "failed"], "2.16.0.dev1", id="the last that was green"),
        pytest.param(["failed", "failed", "infra"], "2.16.0.dev2", id="none green: the last that judged every case"),
        pytest.param(["missing", "infra"], "", id="none judged"),
    ],
)
def test_the_last_good_torch(tmp_path: Path, outcomes: list[Outcome], version: str) -> None:
    assert last_good(history(tmp_path, *outcomes)) == version


def test_a_night_is_good_only_where_every_runner_is(tmp_path: Path) -> None:
    keep([night("passed", 1), night("passed", 1, runner="h100x1")], tmp_path, FIRST)
    keep([night("passed", 2), night("failed", 2, runner="h100x1")], tmp_path, FIRST + timedelta(days=1))
    assert last_good(tmp_path) == "2.16.0.dev1"


def test_times_come_from_the_last_night_that_is_whole(tmp_path: Path) -> None:
    history(tmp_path, "passed", "failed", "missing")
    assert times(tmp_path, "nightly", "cpu") == "nightly/2026-11-03T0317/cpu.xml"
    assert times(tmp_path, "nightly", "h100x1") == ""
    assert times(tmp_path, "stable", "cpu") == ""


def test_damage_tells_nothing_and_takes_nothing_with_it(tmp_path: Path) -> None:
    history(tmp_path, "passed", "passed")
    (tmp_path / "nightly" / "2026-11-03T0317" / "cpu.xml").write_text("<testsuites>")
    (tmp_path / "nightly" / "lost+found").mkdir()
    (tmp_path / "nightly" / "2026-11-04T0317").write_text("a file")
    assert last_good(tmp_path) == "2.16.0.dev1"
    assert times(tmp_path, "nightly", "cpu") == "nightly/2026-11-02T0317/cpu.xml"


def test_a_night_of_a_wrong_clock_is_never_the_last(tmp_path: Path) -> None:
    for name in ("2999-01-01T0000", "2026-11-01T0000"):
        (tmp_path / "nightly" / name).mkdir(parents=True)
    assert [path.name for path in nights(tmp_path, "nightly")] == ["2026-11-01T0000"]
