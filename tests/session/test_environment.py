from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_exportready.session import environment
from pytest_exportready.session.environment import LEG, properties


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    who = ["-c", "user.name=ana", "-c", "user.email=ana@example.org"]
    subprocess.run(["git", "-C", str(tmp_path), "init", "-q"], check=True)
    subprocess.run(["git", "-C", str(tmp_path), *who, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    return tmp_path


def test_the_commit_of_the_users_repository(repository: Path) -> None:
    (repository / "below").mkdir()
    head = subprocess.run(
        ["git", "-C", str(repository), "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    )
    assert properties(repository / "below", {})["commit"] == head.stdout.strip()
    assert properties(repository, {"GITHUB_SHA": "b" * 40})["commit"] == "b" * 40


def test_unknown_properties_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setattr(environment, "_DRIVERS", (str(tmp_path / "none"),))
    monkeypatch.setattr(environment, "_read", lambda path: "")
    found = properties(tmp_path, {})
    assert not {"commit", "exportready.leg", "driver"} & found.keys()
    assert {"python", "platform", "pytest", "pytest-exportready"} <= found.keys()
    assert all(found.values())


def test_a_program_that_hangs_or_fails_prints_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_TIMEOUT", 0.1)
    assert environment._first_line(sys.executable, "-c", "import time; time.sleep(60)") == ""
    assert environment._first_line(sys.executable, "-c", "print(1); exit(3)") == ""
    assert environment._first_line("/no/such/program") == ""
    monkeypatch.setattr(environment, "_TIMEOUT", 60)
    assert environment._first_line(sys.executable, "-c", r"import os; os.write(1, b'\xff\x1b[31m7\n8')") == "\ufffd7"


def test_only_installed_dependencies_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "DEPENDENCIES", ("pytest", "no-such-package-at-all"))
    assert dict(environment._dependencies()) == {"pytest": pytest.__version__}


def test_the_leg_has_the_name_of_its_variable(tmp_path: Path) -> None:
    assert properties(tmp_path, {LEG: "h200"})["exportready.leg"] == "h200"


def test_a_torch_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert properties(tmp_path, {})["torch"].startswith("cannot be imported: ")
