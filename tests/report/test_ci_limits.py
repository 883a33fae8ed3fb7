from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_exportready.report import ci_limits
from pytest_exportready.report.ci_limits import parts, too_large
from pytest_exportready.report.junit import read_junit, write_junit
from pytest_exportready.report.run import Run


def test_what_every_service_takes_is_not_mentioned(run: Run, tmp_path: Path) -> None:
    write_junit(run, tmp_path / "junit.xml")
    assert too_large(run, tmp_path / "junit.xml") == ""


def test_a_file_that_a_service_refuses_is_reported_with_the_line_to_type(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_junit(run, tmp_path / "junit.xml")
    monkeypatch.setattr(ci_limits, "CASES", 3)
    assert too_large(run, tmp_path / "junit.xml") == (
        "junit.xml has 8 cases (limit of Buildkite: 3). "
        "Fix: Run `exportready report junit.xml -o parts.xml --cases 3`, or use `--export-ready-shard=1/N`."
    )
    monkeypatch.setattr(ci_limits, "BYTES", 1)
    assert (
        "and 0 MB (limit of GitLab: 0). Fix: Run `exportready report junit.xml -o parts.xml --cases 1`,"
        in too_large(run, tmp_path / "junit.xml")
    )


def test_parts_read_back_as_the_whole(run: Run, tmp_path: Path) -> None:
    paths = []
    for number, part in enumerate(parts(run, 3)):
        assert len(part.results) <= 3
        paths.append(tmp_path / f"{number}.xml")
        write_junit(part, paths[-1])
    assert len(paths) == 3
    assert read_junit(*paths) == run
    assert list(parts(replace(run, results=()), 3)) == [replace(run, results=())]
