"""A failure that passes in a new process is flaky; one that fails there again is confirmed."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import pytest
from user_project import Project

from pytest_exportready.report.run import Run, TestResult
from pytest_exportready.session import rerun_failures
from pytest_exportready.session.reference_models import PACKAGE

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


def test_flaky_and_steady_failures_are_distinguished(project: Project) -> None:
    project.write(FLAKY.format(passes_at=3) + STEADY + HEALTHY)
    result = project.run("--export-ready-confirm=2", "--junitxml=mine.xml")
    results = project.results()
    assert {name: one.outcome for name, one in results.items()} == {
        "test_flaky[as_is]": "passed",
        "test_steady[as_is]": "failed",
        "test_healthy[as_is]": "passed",
    }
    assert len(results["test_flaky[as_is]"].earlier) == 1
    assert results["test_flaky[as_is]"].earlier[0].endswith("(and passed in new process 2 of 2)")
    assert len(results["test_steady[as_is]"].earlier) == 2
    assert results["test_steady[as_is]"].earlier[0].startswith("in new process 1 of 2: ")
    assert results["test_healthy[as_is]"].earlier == ()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "test_steady" in (project.path / "mine.xml").read_text()
    result.stdout.fnmatch_lines(["Rerunning failure 1 of 2: test_cases.py::test_flaky*", "  passed: flaky"])


def test_a_run_whose_failures_all_pass_again_has_not_failed(project: Project) -> None:
    project.write(FLAKY.format(passes_at=2) + HEALTHY)
    result = project.run("test_cases.py", "-k", "test_flaky", "--export-ready-confirm=1")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["Ready: 1 of 1 case passed every stage that ran; 1 only after a retry"])


def test_nothing_is_rerun_by_default(project: Project) -> None:
    project.write(FLAKY.format(passes_at=2))
    assert project.run().ret == pytest.ExitCode.TESTS_FAILED
    assert (project.path / "times.txt").read_text() == "x"


def test_a_text_that_is_not_a_number_is_a_usage_error(project: Project) -> None:
    project.write(HEALTHY)
    assert project.run("--export-ready-confirm=often").ret == pytest.ExitCode.USAGE_ERROR


def failed(nodeid: str) -> TestResult:
    return TestResult(nodeid, "t", nodeid.partition("::")[2], outcome="failed", message="why")


def commands(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, *args: str, nodeid: str = "") -> list[str]:
    """Return the arguments of the new process."""
    started: list[list[str]] = []
    monkeypatch.setattr(rerun_failures, "_run", lambda command, *rest: started.append(command))
    config = pytester.parseconfig("--export-ready", *args)
    rerun_failures.confirmed(config, Run((failed(nodeid or "test_cases.py::test_case"),)), 1, lambda line: None)
    return started[0][3:]


def test_only_paths_are_taken_from_the_command_line(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makepyfile(test_cases="")
    given = ("-k", "test_cases.py", "test_cases.py", "-q", "./test_cases.py::test_case", "--pdb")
    command = [one for one in commands(pytester, monkeypatch, *given) if "basetemp" not in one]
    assert command[:4] == ["--export-ready", "-k", "test_cases.py", "-q"]
    assert command[4] == f"{pytester.path / 'test_cases.py'}::test_case"
    assert "--pdb" not in command


def test_a_reference_model_is_named_by_its_id(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    nodeid = f"{PACKAGE}/linear_regression.py::test_linear_regression[plain]"
    command = commands(pytester, monkeypatch, nodeid=nodeid)
    assert nodeid in command
    assert "--export-ready-reference-models=never" in command  # no other reference model runs


def test_files_of_the_run_are_not_overwritten(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ("--junitxml=mine.xml", "--log-file=mine.log", f"--basetemp={pytester.path / 'mine'}")
    command = commands(pytester, monkeypatch, *given)
    for flag in ("--junitxml", "--log-file", "--basetemp", "--export-ready-junit", "--export-ready-html"):
        last = [argument for argument in command if argument.startswith(f"{flag}=")][-1]
        assert "mine" not in last
        assert Path(last.partition("=")[2]).is_absolute()
    assert command[command.index("-o") + 1].startswith("cache_dir=")


def test_an_interrupt_keeps_the_results_so_far(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(config: pytest.Config, result: TestResult, times: int) -> TestResult:
        if result.nodeid.endswith("b"):
            raise KeyboardInterrupt
        return TestResult(result.nodeid, "t", result.name, outcome="passed", earlier=("why",))

    monkeypatch.setattr(rerun_failures, "_confirmed", interrupted)
    lines: list[str] = []
    run = Run(tuple(map(failed, ("t.py::a", "t.py::b", "t.py::c"))))
    after = rerun_failures.confirmed(pytester.parseconfig(), run, 1, lines.append)
    assert [result.outcome for result in after.results] == ["passed", "failed", "failed"]
    assert lines[-1] == "Interrupted: 2 of 3 failures were not rerun"


def test_a_process_without_a_result_is_inconclusive(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rerun_failures, "_run", lambda *rest: None)
    lines: list[str] = []
    after = rerun_failures.confirmed(pytester.parseconfig(), Run((failed("t.py::a"),)), 2, lines.append)
    assert after.results[0].earlier == ()
    assert lines[-1] == "  inconclusive: not confirmed"


def test_the_children_of_a_process_end_with_it(tmp_path: Path) -> None:
    """Its child holds the pipe open for as long as it lives: reading to the end would never return."""
    reading, writing = os.pipe()
    script = f"import subprocess; subprocess.Popen(['sleep', '600'], pass_fds=[{writing}])"
    started = rerun_failures.subprocess.Popen
    with pytest.MonkeyPatch.context() as patch, os.fdopen(reading, "rb") as pipe:
        patch.setattr(rerun_failures.subprocess, "Popen", partial(started, pass_fds=[writing]))
        rerun_failures._run([sys.executable, "-c", script], tmp_path, 60.0)
        os.close(writing)
        assert pipe.read() == b""
