"""A morning from simulated legs: three nights of history, and a regression planted in torch, in the user's repository,
in the environment; legs that are missing, half written or hostile. The scripts are those of the workflow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from pytest_exportready.case.finding import Finding
from pytest_exportready.case.readiness import Readiness, StageResult
from pytest_exportready.cli import main
from pytest_exportready.report.github.artifacts import Gathered
from pytest_exportready.report.github.history import keep, nights
from pytest_exportready.report.github.matrix import Channel, Leg, Runner, matrix, planned
from pytest_exportready.report.junit import read_junit, write_junit
from pytest_exportready.report.run import Run, TestResult
from pytest_exportready.report.shard import RanShard, Shard

TONIGHT = datetime.now(timezone.utc).replace(microsecond=0)
MODELS = ("resnet", "vit", "gpt")
CHANNELS = {"stable": "2.15.0", "last-good": "2.16.0.dev3", "nightly": "2.16.0.dev4"}
LEGS = planned(
    [Runner(("x",), "cpu", 0, "cpu"), Runner(("y",), "H100", 1, "cu130")],
    [Channel(name, torch, "i") for name, torch in CHANNELS.items()],
    2,
)


def result(model: str, broken: bool = False) -> TestResult:
    finding = Finding(
        "ER402", "exportable", "error", "forward", "branches on values", "torch.where", "net.py", 7, stage="export"
    )
    stages = (StageResult("export", "failed" if broken else "passed", 1.0),)
    record = Readiness(model, "plain", stages, (finding,) if broken else ())
    outcome = "failed" if broken else "passed"
    return TestResult(f"t.py::{model}", "t", model, outcome=outcome, seconds=1.0, readiness=record)  # type: ignore[arg-type]


def run_of(torch: str, when: datetime, *results: TestResult, commit: str = "c4", driver: str = "580") -> Run:
    properties = {"torch": torch, "torch.git_version": torch[-1] * 40, "commit": commit[-1] * 40, "driver": driver}
    return Run(results, properties=properties, timestamp=when.isoformat(), hostname="h")


Broken = Callable[[str, str], bool]


def night(
    folder: Path, broken: Broken = lambda channel, model: False, commit: str = "c3", driver: str = "580"
) -> list[str]:
    """Three nights before, all green on torch dev1 .. dev3 and commits c1 .. c3; tonight's artifacts; the arguments."""
    for number in (1, 2, 3):
        run = run_of(
            f"2.16.0.dev{number}", TONIGHT - timedelta(days=4 - number), *map(result, MODELS), commit=f"c{number}"
        )
        before = [
            Gathered("nightly", runner, replace(run, properties={**run.properties, "exportready.leg": runner}), ())
            for runner in ("cpu", "h100x1")
        ]
        keep(before, folder / "history", TONIGHT - timedelta(days=4 - number))
    (folder / "plan.json").write_text(matrix(LEGS))
    for leg in LEGS:
        mine = MODELS[:2] if leg.shard == "1/2" else MODELS[2:]
        results = [result(model, broken(leg.channel, model)) for model in mine]
        run = run_of(leg.torch, TONIGHT, *results, commit=commit, driver=driver)
        shard = Shard.parse(leg.shard)
        shards = (RanShard(shard.number, shard.of, 3, "abc"),)
        write_junit(replace(run, shards=shards), artifact(folder, leg))
    return ["night", "plan.json", "artifacts", "--history", "history"]


def artifact(folder: Path, leg: Leg) -> Path:
    return folder / "artifacts" / leg.name / "junit.xml"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def verdict(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out.splitlines()[-1]


def test_nothing_new(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(night(folder)) == 0
    assert verdict(capsys) == "No: nothing new in 6 cells"
    assert {path.name for path in Path("exportready").glob("*.html")} == {
        "regress.html",
        "stable.html",
        "last-good.html",
        "nightly.html",
        "rules.html",
    }
    assert len(nights(folder / "history", "nightly")) == 4
    assert len(read_junit("exportready/nightly/h100x1.xml").results) == 3


@pytest.mark.parametrize(
    ("broken", "commit", "driver", "message"),
    [
        pytest.param(
            lambda channel, model: channel == "nightly" and model == "vit",
            "c3",
            "580",
            "torch 2.16.0.dev3 -> dev4; the same commit passes on 2.16.0.dev3",
            id="torch",
        ),
        pytest.param(lambda channel, model: model == "vit", "c4", "580", "the same commit also fails on", id="yours"),
        pytest.param(lambda channel, model: model == "vit", "c3", "590", "driver 580 -> 590", id="environment"),
    ],
)
def test_a_planted_regression_is_found_and_laid_at_the_right_door(
    folder: Path, capsys: pytest.CaptureFixture[str], broken: Broken, commit: str, driver: str, message: str
) -> None:
    assert main(night(folder, broken, commit, driver)) == 1
    sentence = verdict(capsys)
    assert sentence.startswith("Yes: 1 new cause, 2 cells, ")
    assert message in sentence
    assert sentence in Path("exportready/regress.html").read_text().replace("&gt;", ">").replace(
        "<strong>", ""
    ).replace("</strong>", "")
    assert read_junit("exportready/regress.xml").properties["exportready.compared"] == sentence


def test_a_missing_leg_is_never_green(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = night(folder)
    lost = next(leg for leg in LEGS if leg.channel == "nightly")
    artifact(folder, lost).unlink()
    assert main(arguments) == 2
    output = capsys.readouterr()
    assert f"leg {lost.name} is missing" in output.err
    assert output.out.splitlines()[-1].startswith("Inconclusive: ")


@pytest.mark.parametrize("damage", ["half written", "hostile"])
def test_a_damaged_artifact_takes_no_other_with_it(
    folder: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    arguments = night(folder, lambda channel, model: channel == "nightly" and model == "gpt")
    first = next(leg for leg in LEGS if leg.channel == "nightly")
    path = artifact(folder, first)
    if damage == "half written":
        path.write_bytes(path.read_bytes()[:300])
    else:
        path.write_text('<!DOCTYPE a [<!ENTITY b "bbbb">]><testsuites><testsuite name="&b;"/></testsuites>')
    assert main(arguments) == 1
    assert verdict(capsys).startswith("Yes: 1 new cause, 2 cells, torch 2.16.0.dev3 -> dev4")


def test_the_first_night_has_nothing_to_compare_with(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = night(folder)
    only = [leg for leg in LEGS if leg.channel == "nightly"]
    Path("plan.json").write_text(matrix(only))
    assert main([*arguments[:-1], "elsewhere"]) == 2
    assert verdict(capsys).startswith("Inconclusive: there is no earlier night to compare with")
    assert len(nights(folder / "elsewhere", "nightly")) == 1


def test_the_summary_and_the_annotations_say_the_same(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert main(night(folder, lambda channel, model: channel == "nightly" and model != "gpt")) == 1
    lines = capsys.readouterr().out.splitlines()
    summary = Path("summary.md").read_text()
    rest = lines[-1].partition(": ")[2]
    assert summary.startswith(f"### Yes: `{rest}`\n")
    assert f"::error title=export readiness compared with the previous night::{lines[-1]}" in lines
    assert any(line.startswith("::error file=net.py,line=7,title=torch%3A t.py%3A%3A") for line in lines)
    assert "- `torch 2.16.0.dev3 -> dev4`" in summary
    assert "pytest --export-ready t.py::resnet" in summary


def test_an_issue_needs_a_token(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    assert main([*night(folder), "--issue"]) == 2
    assert "GITHUB_TOKEN" in capsys.readouterr().err
    assert Path("exportready/regress.html").exists()


def test_the_steps_of_the_workflow_run_as_they_are_written(folder: Path, tmp_path: Path) -> None:
    """plan, then the comparison: by bash, from the workflow's own text."""
    yaml = pytest.importorskip("ruamel.yaml")
    workflow = Path(__file__).parents[2] / ".github" / "workflows" / "export-ready.yml"
    jobs = yaml.YAML(typ="safe", pure=True).load(workflow)["jobs"]
    scripts = {step["name"]: step["run"] for job in jobs.values() for step in job["steps"] if "run" in step}
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "exportready"
    start = "import sys; from pytest_exportready.cli import main; sys.exit(main())"
    command.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{start}' \"$@\"\n")
    command.chmod(0o755)

    def step(name: str, **given: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}", **given}
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", scripts[name]]
        return subprocess.run(shell, env=environment, capture_output=True, text=True, check=False)

    night(folder, lambda channel, model: channel == "nightly" and model == "vit")
    runners = [
        {"labels": ["x"], "gpu": "cpu", "gpus": 0, "cuda": "cpu"},
        {"labels": ["y"], "gpu": "H100", "gpus": 1, "cuda": "cu130"},
    ]
    Path("runners.json").write_text(json.dumps(runners))
    channels = "stable=2.15.0 last-good nightly=2.16.0.dev4"
    done = step("plan", RUNNERS="runners.json", CHANNELS=channels, SHARDS="2", GITHUB_OUTPUT="output")
    assert done.returncode == 0, done.stderr
    names = [leg["name"] for leg in json.loads(Path("output").read_text().removeprefix("matrix="))["include"]]
    assert names == [leg.name for leg in LEGS]
    Path("artifacts/export-ready-plan").mkdir()
    Path("plan.json").rename("artifacts/export-ready-plan/plan.json")
    Path("history").rename("artifacts/export-ready-plan/history")
    done = step("compare with earlier nights", ISSUE="", EXPECTED="", GITHUB_STEP_SUMMARY="summary.md")
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[-1].startswith("Yes: 1 new cause, 2 cells, torch 2.16.0.dev3 -> dev4")
    assert Path("summary.md").read_text().startswith("### Yes: ")
