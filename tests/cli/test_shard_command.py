"""The command is pytest with a shard: its arguments, its exit status."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CASES = """\
import pytest
from pytest_exportready import export_ready

@pytest.mark.parametrize("number", range(5))
@export_ready(scenarios=["as_is"])
def test_case(number): ...
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "test_cases.py").write_text(CASES)
    return tmp_path


def shard(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "import sys; from pytest_exportready.cli import main; sys.exit(main())", "shard"]
    return subprocess.run([*command, *arguments], cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def test_runs_its_part_with_pytests_arguments(folder: Path) -> None:
    done = shard(folder, "2/2", "--collect-only", "-q", "-p", "no:cacheprovider", "test_cases.py")
    assert done.stdout.count("::test_case[") == 2, done.stdout + done.stderr
    assert done.returncode == 0
    assert "Warning" not in done.stdout + done.stderr


def test_a_wrong_shard_is_reported(folder: Path) -> None:
    done = shard(folder, "3/2", "test_cases.py")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--export-ready-shard=3/2" in done.stderr
