"""Project: a folder in which pytest runs, and the results of its cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_exportready.report.junit import read_junit
from pytest_exportready.report.run import TestResult

HEADER = """\
import pytest, torch
from torch import nn
from pytest_exportready import ExportCase, export_ready

def ready(features=3):
    return nn.Linear(features, 2).eval(), (torch.randn(4, features),)

def not_ready(features=3):
    return nn.Sequential(nn.Linear(features, 4), nn.BatchNorm1d(4)), (torch.randn(4, features),)

"""


class Project:
    """A project of a user; the reference models run only if asked for."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.path = pytester.path

    def write(self, text: str, name: str = "test_cases.py") -> Path:
        path = self.path / name
        path.write_text(HEADER + text if name.endswith(".py") and name != "conftest.py" else text)
        return path

    def run(self, *args: str, models: str = "never", subprocess: bool = False) -> pytest.RunResult:
        """Run ``pytest --export-ready`` in this process, or in a subprocess (``subprocess``), which xdist needs."""
        flags = (
            "--export-ready",
            f"--export-ready-reference-models={models}",
            "-p",
            "no:cacheprovider",
            *args,
        )
        if subprocess:
            return self.pytester.runpytest_subprocess(*flags)
        return self.pytester.runpytest_inprocess(*flags, no_reraise_ctrlc=True)

    def results(self, path: str = "exportready/junit.xml") -> dict[str, TestResult]:
        """Return the results in the JUnit file, by node id without the file."""
        return {result.nodeid.partition("::")[2]: result for result in read_junit(self.path / path).results}

    def outcomes(self) -> dict[str, str]:
        """Return ``passed``, ``failed at export`` ... by name."""
        return {
            name: f"{result.outcome} at {result.stage}" if result.stage else result.outcome
            for name, result in self.results().items()
        }
