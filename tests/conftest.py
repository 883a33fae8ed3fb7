"""Fixtures and hooks of all tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, installed
from pretended_cuda import PretendedCuda, needs as pretended_cuda_needs
from user_project import Project

pytest_plugins = ["pytester"]
collect_ignore = ["benchmarks"]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Seed torch, so that random weights do not depend on the order of tests."""
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Ignore the tests of this project with --export-ready, which runs the reference models in a checkout."""
    return True if config.getoption("--export-ready", None) else None


@pytest.fixture(scope="session")
def imported() -> None:
    """Import what a run imports: pytester forgets these modules, and torch cannot be imported twice."""
    import torch
    from torch import nn

    from pytest_exportready import export_ready_check
    from pytest_exportready.report import html, junit, terminal  # noqa: F401
    from pytest_exportready.session import verdict  # noqa: F401

    assert export_ready_check(nn.Linear(2, 2).eval(), (torch.randn(2, 2),), dynamic_batch=True).ready


@pytest.fixture
def project(pytester: pytest.Pytester, imported: None) -> Project:
    return Project(pytester)


@pytest.fixture(scope="session")
def pretended_cuda(tmp_path_factory: pytest.TempPathFactory) -> PretendedCuda:
    """CUDA devices for processes that a test starts; skip where they cannot be had."""
    if reason := pretended_cuda_needs():
        pytest.skip(reason)
    return PretendedCuda(tmp_path_factory.mktemp("cuda"))


HIDE_NUMPY = """
from importlib.machinery import PathFinder

find = PathFinder.find_spec
PathFinder.find_spec = classmethod(lambda cls, name, *rest: None if name == "numpy" else find(name, *rest))
"""


@pytest.fixture
def without_numpy(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide NumPy from every Python process that the test starts."""
    folder = tmp_path_factory.mktemp("hidden")
    (folder / "sitecustomize.py").write_text(HIDE_NUMPY)
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    executable = installed()
    if executable is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    browser = Browser(executable, tmp_path / "profile")
    yield browser
    browser.close()
