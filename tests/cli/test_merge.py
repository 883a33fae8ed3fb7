"""A night comes together from its artifacts; what is missing fails the command and is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_exportready.cli import main
from pytest_exportready.github.legs import Channel, Runner, matrix, planned
from pytest_exportready.readiness import Readiness, StageResult
from pytest_exportready.report.junit import read_junit, write_junit
from pytest_exportready.report.run import Run, TestResult

LEGS = planned([Runner(("x",), "H100", 1, "cu130")], [Channel("stable", "2.14.1", "i")], 2)


@pytest.fixture
def night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("plan.json").write_text(matrix(LEGS))
    for leg in LEGS:
        record = Readiness(leg.name, "plain", (StageResult("export", "passed"),), ())
        case = TestResult(f"t.py::{leg.name}", "t", leg.name, readiness=record)
        write_junit(
            Run((case,), properties={"shard": f"{leg.shard} of 2 cases (a)"}), Path("artifacts", leg.name, "junit.xml")
        )
    return tmp_path


def test_shards_become_one_file_a_runner(night: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["merge", "plan.json", "artifacts", "-o", "night"]) == 0
    assert capsys.readouterr().out == "night/stable/h100x1.xml: Ready: all 2 cases passed every stage that ran\n"
    assert len(read_junit("night/stable/h100x1.xml").results) == 2


def test_a_missing_leg_is_named_and_not_green(night: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("artifacts", LEGS[1].name, "junit.xml").unlink()
    assert main(["merge", "plan.json", "artifacts"]) == 1
    told = capsys.readouterr()
    assert told.err == f"exportready merge: leg {LEGS[1].name} is missing or cannot be read\n"
    assert "Can't tell: 1 of 2 cases" in told.out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["no.json", "artifacts"], "no.json: cannot be read"),
        (["plan.json", "artifacts", "-o", "plan.json"], "plan.json"),
    ],
)
def test_what_cannot_be_done_is_told(
    night: Path, arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["merge", *arguments]) == 2
    assert told in capsys.readouterr().err
