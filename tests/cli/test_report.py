from __future__ import annotations

from pathlib import Path

import pytest

from pytest_exportready.case.readiness import Readiness, StageResult
from pytest_exportready.cli import main
from pytest_exportready.report.junit import read_junit, write_junit
from pytest_exportready.report.run import Run, TestResult


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    record = Readiness("vit", "plain", (StageResult("export", "passed"),), ())
    paths = [tmp_path / "a.xml", tmp_path / "b.xml"]
    for path in paths:
        write_junit(Run((TestResult(f"t.py::{path.stem}", "t", path.stem, readiness=record),)), path)
    return paths


def test_renders_shards_as_one_page(shards: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "out" / "report.html"
    assert main(["report", *map(str, shards), "-o", str(page)]) == 0
    assert capsys.readouterr().out == f"Ready: all 2 cases passed every stage that ran\n{page}\n"
    assert "Ready:</strong> all 2 cases" in page.read_text(encoding="utf-8")


def test_merges_shards_into_one_junit_file(shards: list[Path], tmp_path: Path) -> None:
    assert main(["report", *map(str, shards), "-o", str(tmp_path / "all.xml")]) == 0
    assert read_junit(tmp_path / "all.xml") == read_junit(*shards)


def test_one_broken_shard_is_reported_and_is_not_green(
    shards: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shards[1].write_text("<testsuites>")
    assert main(["report", *map(str, shards), "-o", str(tmp_path / "report.html")]) == 1
    output = capsys.readouterr()
    assert "b.xml is not well-formed XML" in output.err
    assert output.out.startswith("Inconclusive: 1 of 2 cases have no verdict")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["none.xml"], "none.xml cannot be read: No such file", id="no file"),
        pytest.param(["a.xml", "-o", "report.pdf"], "the suffix of report.pdf is not .html or .xml", id="ending"),
        pytest.param(["a.xml", "-o", "a.xml/report.html"], "cannot be written", id="folder"),
    ],
)
def test_what_cannot_be_done_is_reported(
    shards: list[Path],
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(shards[0].parent)
    assert main(["report", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_merged_file_can_be_strict_and_in_parts(shards: list[Path], tmp_path: Path) -> None:
    output = tmp_path / "parts.xml"
    arguments = ["report", *map(str, shards), "-o", str(output), "--form", "strict", "--cases", "1"]
    assert main(arguments) == 0
    parts = sorted(tmp_path.glob("parts-*.xml"))
    assert len(parts) == len(read_junit(*shards).results) > 1
    assert read_junit(*parts) == read_junit(*shards)
    assert "<testcase name" in parts[0].read_text()
    assert " file=" not in parts[0].read_text()
    assert main(["report", *map(str, shards), "-o", str(output), "--cases", "-1"]) == 2


def test_rules_that_cannot_be_written_leave_the_report(
    shards: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out" / "rules.html").mkdir(parents=True)
    assert main(["report", *map(str, shards), "-o", str(tmp_path / "out" / "report.html")]) == 2
    assert "rules.html cannot be written: it is not a file" in capsys.readouterr().err
    assert "Ready:</strong> all 2 cases" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
