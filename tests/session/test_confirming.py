"""A failure that passes in a fresh process is flaky; one that fails there too is confirmed; the rest stays."""

from __future__ import annotations

import pytest
from user_project import Project

FLAKY = """\
from pathlib import Path

@export_ready(scenarios=["as_is"], stages=["export"])
def test_flaky():
    times = Path("times.txt")
    with times.open("a") as file:
        file.write("x")
    model, args = ready()
    model.train(len(times.read_text()) < {passes_at})
    return (nn.Sequential(model, nn.BatchNorm1d(3)) if model.training else model), args
"""
STEADY = """\
@export_ready(scenarios=["as_is"], stages=["export"])
def test_steady():
    return not_ready()
"""
HEALTHY = """\
@export_ready(scenarios=["as_is"], stages=["export"])
def test_healthy():
    return ready()
"""


def test_flaky_and_steady_failures_are_told_apart(project: Project) -> None:
    project.write(FLAKY.format(passes_at=3) + STEADY + HEALTHY)
    result = project.run("--export-ready-confirm=2", "--junitxml=mine.xml")
    results = project.results()
    assert {name: one.outcome for name, one in results.items()} == {
        "test_flaky[as_is]": "passed",
        "test_steady[as_is]": "failed",
        "test_healthy[as_is]": "passed",
    }
    assert len(results["test_flaky[as_is]"].earlier) == 1
    assert results["test_flaky[as_is]"].earlier[0].endswith("(and passed in fresh process 2 of 2)")
    assert len(results["test_steady[as_is]"].earlier) == 2
    assert results["test_steady[as_is]"].earlier[0].startswith("in fresh process 1 of 2: ")
    assert results["test_healthy[as_is]"].earlier == ()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "test_steady" in (project.path / "mine.xml").read_text()
    result.stdout.fnmatch_lines(["confirming 1 of 2: test_cases.py::test_flaky*", "  passes there: flaky"])


def test_a_run_whose_failures_all_pass_again_has_not_failed(project: Project) -> None:
    project.write(FLAKY.format(passes_at=2) + HEALTHY)
    result = project.run("test_cases.py", "-k", "test_flaky", "--export-ready-confirm=1")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["Ready: 1 of 1 case passed every stage that ran; 1 only after a retry"])


def test_nothing_is_run_again_unasked(project: Project) -> None:
    project.write(FLAKY.format(passes_at=2))
    assert project.run().ret == pytest.ExitCode.TESTS_FAILED
    assert (project.path / "times.txt").read_text() == "x"


def test_what_is_no_number_is_a_usage_error(project: Project) -> None:
    project.write(HEALTHY)
    assert project.run("--export-ready-confirm=often").ret == pytest.ExitCode.USAGE_ERROR
