"""One plan for a night: each torch resolved once, last-good from the history, shards weighed by it."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import pytest

from pytest_exportready.case.readiness import Readiness, StageResult
from pytest_exportready.cli import main
from pytest_exportready.report.github import resolve_torch
from pytest_exportready.report.github.artifacts import Gathered
from pytest_exportready.report.github.history import keep
from pytest_exportready.report.run import Run, TestResult

CPU = {"labels": ["ubuntu-latest"], "gpu": "cpu", "gpus": 0, "cuda": "cpu"}


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, bool]]:
    """The requests to the index, which has one version of each."""
    calls: list[tuple[str, str, bool]] = []

    def resolve(requirement: str, index: str, *, pre: bool = False) -> str:
        calls.append((requirement, index, pre))
        return "2.16.0.dev20261129+cpu" if pre else "2.14.1+cpu"

    monkeypatch.setattr(resolve_torch, "resolve", resolve)
    monkeypatch.delenv("GITHUB_OUTPUT", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("runners.json").write_text(json.dumps([CPU, {**CPU, "gpu": "H100", "gpus": 1}]))
    return calls


def legs() -> list[dict[str, object]]:
    return list(json.loads(Path("plan.json").read_text())["include"])


def good_night(history: Path) -> None:
    record = Readiness("a", "plain", (StageResult("export", "passed"),), ())
    run = Run((TestResult("t.py::a", "t", "a", readiness=record),), properties={"torch": "2.16.0.dev20261127+cpu"})
    keep([Gathered("nightly", "cpu", run, ())], history, datetime(2026, 11, 27, 3, tzinfo=timezone.utc))


def test_each_torch_is_resolved_once_for_all_legs(asked: list[tuple[str, str, bool]]) -> None:
    assert main(["plan", "runners.json", "--torch", "stable", "--torch", "nightly", "--shards", "2"]) == 0
    assert asked == [
        ("torch", "https://download.pytorch.org/whl/cpu", False),
        ("torch", "https://download.pytorch.org/whl/nightly/cpu", True),
    ]
    assert len(legs()) == 8
    assert {leg["torch"] for leg in legs()} == {"2.14.1", "2.16.0.dev20261129"}


def test_last_good_comes_from_the_history_and_so_do_the_times(asked: list[tuple[str, str, bool]]) -> None:
    good_night(Path("history"))
    assert main(["plan", "runners.json", "--torch=last-good", "--torch=nightly", "--history=history"]) == 0
    planned = {leg["name"]: (leg["torch"], leg["index"], leg["times"]) for leg in legs()}
    index = "https://download.pytorch.org/whl/nightly/cpu"
    assert planned["last-good-cpu-1of1"] == ("2.16.0.dev20261127", index, "")
    assert planned["nightly-cpu-1of1"] == ("2.16.0.dev20261129", index, "nightly/2026-11-27T0300/cpu.xml")
    assert planned["nightly-h100x1-1of1"] == ("2.16.0.dev20261129", index, "")


def test_without_a_history_last_good_is_left_out_and_said(
    asked: list[tuple[str, str, bool]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "runners.json", "--torch=last-good", "--torch=floor=2.13.0"]) == 0
    assert {(leg["channel"], leg["torch"]) for leg in legs()} == {("floor", "2.13.0")}
    assert asked == []
    assert "last-good is left out" in capsys.readouterr().err


def test_the_matrix_goes_to_the_next_job(asked: list[tuple[str, str, bool]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_OUTPUT", "output")
    assert main(["plan", "runners.json", "--torch=floor=2.13.0"]) == 0
    assert Path("output").read_text() == f"matrix={Path('plan.json').read_text()}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["runners.json", "--torch=last-good"], "no torch to run with"),
        (["none.json", "--torch=floor=2.13.0"], "none.json cannot be read"),
        (["runners.json", "--torch=floor=2.13.0", "--shards=0"], "--shards 0 is less than 1"),
        (["runners.json", "--torch=floor=2.13.0", "-o", "runners.json/plan.json"], "cannot be written"),
    ],
)
def test_what_cannot_be_planned_is_reported(
    asked: list[tuple[str, str, bool]], arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *arguments]) == 2
    assert message in capsys.readouterr().err
