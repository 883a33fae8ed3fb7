from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_exportready.case.finding import Finding
from pytest_exportready.case.readiness import Readiness, StageResult
from pytest_exportready.cli import main
from pytest_exportready.report.junit import read_junit, write_junit
from pytest_exportready.report.run import Run, TestResult


def write(path: Path, day: int, *failing: str, torch: str = "") -> None:
    def result(name: str) -> TestResult:
        bad = name in failing
        findings = (Finding("ER401", "traces", "error", "fc", "TypeError: no", "", stage="export"),) * bad
        record = Readiness(name, "plain", (StageResult("export", "failed" if bad else "passed"),), findings)
        return TestResult(f"t.py::{name}", "t", name, outcome="failed" if bad else "passed", readiness=record)

    properties = {"torch": torch or f"2.16.0.dev202611{day:02}", "commit": "a" * 40}
    write_junit(Run((result("vit"), result("gpt")), properties, f"2026-11-{day:02}T02:00:00+00:00"), path)


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "history" / "a" / "junit.xml", 26)
    write(tmp_path / "last" / "junit.xml", 27)
    write(tmp_path / "tonight" / "junit.xml", 28, "vit")
    write(tmp_path / "stable.xml", 28, torch="2.15.0")
    return tmp_path


YES = "Yes: 1 new cause, 1 cell, torch 2.16.0.dev20261127 -> dev20261128; the same commit passes on 2.15.0"
GIVEN = ["compare", "last", "tonight", "--stable", "stable.xml", "--baseline-history", "history"]


def test_the_sentence_is_the_last_line_and_in_both_files(nights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*GIVEN, "-o", "out/regress.html", "--junit", "out/regress.xml"]) == 1
    output = capsys.readouterr().out.splitlines()
    assert output[-3:] == [
        "HTML: out/regress.html",
        "to make tonight the new baseline: rm -r last && cp -r tonight last",
        YES,
    ]
    assert "torch: export: ER401: TypeError: no" in output
    assert f"<title>{YES}</title>".replace("->", "-&gt;") in Path("out/regress.html").read_text(encoding="utf-8")
    run = read_junit("out/regress.xml")
    assert run.properties["exportready.compared"] == YES
    assert [result.outcome for result in run.results] == ["failed", "passed"]


@pytest.mark.parametrize(("fail_on", "status"), [("new", 1), ("any", 1), ("never", 0)])
def test_what_fails_the_command(nights: Path, fail_on: str, status: int) -> None:
    assert main([*GIVEN, "--fail-on", fail_on]) == status


def test_the_new_baseline_is_green(nights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(GIVEN)
    (command,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("to make tonight")]
    subprocess.run(command.partition(": ")[2], shell=True, check=True)
    assert main(GIVEN) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "No: nothing new in 2 cells; 1 still failing"


def test_an_expected_failure_does_not_count(nights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry = '[[expected]]\ntest = "t.py::{}"\nreason = "#1"\nowner = "ana"\nexpires = 2026-12-31\n'
    Path("expected.toml").write_text(entry.format("vit") + entry.format("gpt") + entry.format("old"))
    assert main([*GIVEN, "--expected", "expected.toml"]) == 0
    output = capsys.readouterr().out
    assert "No: nothing new in 2 cells; 1 expected" in output
    assert "passes now. Fix: Remove the entry t.py::gpt" in output
    assert "matches no case. Fix: Correct or remove the entry t.py::old" in output


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--expected", "none.toml"], "none.toml cannot be read"),
        (["-o", "stable.xml/x.html"], "cannot be written"),
        (["--junit", "last"], "cannot be written"),
    ],
)
def test_what_cannot_be_done_is_reported(
    nights: Path, capsys: pytest.CaptureFixture[str], given: list[str], message: str
) -> None:
    assert main([*GIVEN, *given]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("tonight", ["none", "empty", "broken"])
def test_a_night_that_is_not_there_cannot_be_told(
    nights: Path, capsys: pytest.CaptureFixture[str], tonight: str
) -> None:
    Path("empty").mkdir()
    Path("broken").mkdir()
    Path("broken/junit.xml").write_text("<testsuites>")
    assert main(["compare", "last", tonight]) == 2
    assert capsys.readouterr().out.splitlines()[-1].startswith("Inconclusive: 2 cells did not run")


def test_the_first_night_has_nothing_to_compare_with(nights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "none", "tonight"]) == 2
    assert capsys.readouterr().out.splitlines()[-1] == "Inconclusive: there is no earlier night to compare with"


def test_torch_is_not_needed(nights: Path) -> None:
    code = f"import sys; from pytest_exportready.cli import main; main({GIVEN!r}); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
