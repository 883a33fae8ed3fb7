"""In a job: appended to the step's summary, annotations on standard output. Elsewhere: printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_exportready.cli import main
from pytest_exportready.report.junit import write_junit
from pytest_exportready.report.run import Run, TestResult


@pytest.fixture
def junit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    write_junit(Run((TestResult("t.py::a", "t", "a", outcome="failed", message="no"),)), tmp_path / "junit.xml")
    return str(tmp_path / "junit.xml")


def test_in_a_job(
    junit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "summary.md").write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert main(["summary", junit]) == 0
    assert (tmp_path / "summary.md").read_text().startswith("before\n### Not ready: `1 of 1 case (a)`\n")
    assert capsys.readouterr().out == "::error title=export readiness::Not ready: 1 of 1 case (a)\n"


def test_elsewhere(junit: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", junit]) == 0
    assert capsys.readouterr().out.startswith("### Not ready: `1 of 1 case (a)`\n")


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", str(tmp_path / "none.xml")]) == 2
    assert "none.xml cannot be read" in capsys.readouterr().err
