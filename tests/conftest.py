"""What the tests of the plugin share."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, installed
from user_project import Project

pytest_plugins = ["pytester"]
collect_ignore = ["benchmarks"]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Random weights are the same in whatever order the tests run."""
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """No test of this project is an export case: in a checkout the reference models are run."""
    return True if config.getoption("--export-ready", None) else None


@pytest.fixture(scope="session")
def imported() -> None:
    """All that judging imports: pytester forgets what a run imported, and torch cannot be imported twice."""
    import torch
    from torch import nn

    from pytest_exportready import export_ready_check
    from pytest_exportready.report import html, junit, terminal  # noqa: F401
    from pytest_exportready.session import verdict  # noqa: F401

    assert export_ready_check(nn.Linear(2, 2).eval(), (torch.randn(2, 2),), dynamic_batch=True).ready


@pytest.fixture
def project(pytester: pytest.Pytester, imported: None) -> Project:
    return Project(pytester)


HIDE_NUMPY = """
from importlib.machinery import PathFinder

find = PathFinder.find_spec
PathFinder.find_spec = classmethod(lambda cls, name, *rest: None if name == "numpy" else find(name, *rest))
"""


@pytest.fixture
def without_numpy(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every Python process started by the test, NumPy is not installed."""
    folder = tmp_path_factory.mktemp("hidden")
    (folder / "sitecustomize.py").write_text(HIDE_NUMPY)
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    executable = installed()
    if executable is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    browser = Browser(executable, tmp_path / "profile")
    yield browser
    browser.close()
