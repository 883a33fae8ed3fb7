"""The reports of a session in one process."""

from __future__ import annotations

import signal
import sys
from typing import Any

import pytest
from user_project import Project

from pytest_exportready.report import html, junit, rules_html, terminal
from pytest_exportready.report.collect_results import Gather

ONE = '@export_ready(stages=["train"])\ndef test_one(): return ready()\n'


def test_files_where_asked(project: Project) -> None:
    project.write(ONE)
    result = project.run("--export-ready-junit=a/b.xml", f"--export-ready-html={project.path}/c.html")
    assert result.ret == 0
    assert list(project.results("a/b.xml")) == ["test_one"]
    assert "test_one" in (project.path / "c.html").read_text()
    assert not (project.path / "exportready").exists()
    result.stdout.fnmatch_lines(["*= export readiness =*", "JUnit: a/b.xml", "HTML: c.html", "Ready: *"])


def test_a_crash_leaves_no_verdict_of_an_earlier_run(project: Project) -> None:
    project.write(ONE)
    assert project.run().ret == 0
    assert project.run("--collect-only").ret == 0
    assert list(project.results()) == ["test_one"]
    project.write("import os, signal\n@export_ready\ndef test_one(): os.kill(os.getpid(), signal.SIGKILL)\n")
    assert project.run(subprocess=True).ret == -signal.SIGKILL
    assert [path.name for path in (project.path / "exportready").iterdir()] == ["rules.html"]


@pytest.mark.parametrize(
    "args", [["--collect-only"], ["--setup-only"], ["--setup-plan"], ["--fixtures"], ["--markers"]]
)
def test_no_report_if_nothing_runs(project: Project, args: list[str]) -> None:
    project.write(ONE)
    assert project.run(*args).ret == 0
    assert not (project.path / "exportready").exists()


@pytest.mark.parametrize(
    "args",
    [
        ["-W", "error", "--strict-markers", "-p", "no:xdist"],
        ["-p", "no:terminal"],
        ["-p", "no:logging"],
        ["-s"],
        ["-q"],
        ["-qq"],
        ["-vv"],
        ["--setup-show"],
        ["--log-cli-level=INFO"],
        ["-rA"],
        ["--tb=no"],
        ["--no-header", "--no-summary"],
        ["-p", "no:junitxml", "-p", "no:doctest", "-p", "no:unittest"],
        ["--junitxml=pytest.xml"],
        ["-o", "console_output_style=count"],
        ["-p", "no:skipping"],
    ],
    ids=" ".join,
)
def test_works_with(project: Project, args: list[str]) -> None:
    project.write(ONE + "@export_ready\ndef test_two(): return None")
    assert project.run(*args).ret == pytest.ExitCode.TESTS_FAILED
    assert project.outcomes() == {"test_one": "passed", "test_two": "failed at case"}


@pytest.mark.parametrize("args", [[], ["--tb=short"], ["--tb=no"], ["--tb=line"], ["-n", "1"], ["-vv"]], ids=" ".join)
@pytest.mark.parametrize("ci", ["", "true"], ids=["", "ci"])
def test_each_finding_is_printed_once(
    project: Project, args: list[str], ci: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under FAILURES, with its fix; in the summary where pytest prints no failures."""
    monkeypatch.delenv("BUILD_NUMBER", raising=False)  # pytest takes both for a sign of CI
    monkeypatch.setenv("CI", ci)
    project.write('@export_ready(stages=["train"])\ndef test_two(): return not_ready()')
    result = project.run(*args, subprocess="-n" in args)
    result.assert_outcomes(failed=1)
    unprinted = [["--tb=no"], *([["--tb=line"]] if pytest.version_tuple < (9,) else [])]
    printed = [line for line in result.outlines if "ER302" in line]
    assert len(printed) == 1
    assert "Fix: " in printed[0]
    assert "model.eval()" in printed[0]
    summary = result.outlines.index(next(line for line in result.outlines if "= export readiness =" in line))
    assert (result.outlines.index(printed[0]) > summary) == (args in unprinted)
    result.stdout.fnmatch_lines(["findings: 2 errors"])


def test_a_wrong_marker_has_no_advice_about_tracebacks(project: Project) -> None:
    project.write('@export_ready(scenario="ddp")\ndef test_typo(): return ready()')
    result = project.run()
    result.stdout.fnmatch_lines(["@export_ready, test_cases.py:*no argument `scenario`. Fix: Write `scenarios`; *"])
    assert "--full-trace" not in result.stdout.str()


def test_the_summary_names_cases_that_did_not_run(project: Project) -> None:
    project.write("@export_ready\ndef test_bad(): return None\n@export_ready\ndef test_after(): return ready()")
    result = project.run("-x")
    result.stdout.fnmatch_lines(["after  test_cases.py::test_after", "  did not run: *", "Not ready: *"])


def test_no_case_at_all(project: Project) -> None:
    project.write("def test_plain(): pass")
    result = project.run()
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines(["Inconclusive: no case ran"])


def test_a_file_that_cannot_be_collected(project: Project) -> None:
    project.write(ONE)
    project.write("import no_such_module", "test_broken.py")
    result = project.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["Inconclusive: *"])
    assert {r.outcome for r in project.results().values()} == {"infra"}


@pytest.mark.parametrize("stop", ["KeyboardInterrupt", "pytest.exit.Exception('enough')"])
def test_reports_of_a_session_that_is_stopped(project: Project, stop: str) -> None:
    project.write(ONE + f"@export_ready\ndef test_stop(): raise {stop}\n")
    with (project.path / "test_cases.py").open("a") as file:
        file.write("@export_ready\ndef test_after(): return ready()")
    result = project.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert project.outcomes() == {"test_one": "passed", "test_stop": "infra", "test_after": "infra"}
    assert "did not run" in project.results()["test_after"].message
    assert (project.path / "exportready/report.html").exists()
    result.stdout.fnmatch_lines(["Inconclusive: 2 of 3 cases have no verdict*"])


@pytest.mark.parametrize("args", [["-x"], ["--maxfail=1"]])
def test_stopped_at_the_first_failure(project: Project, args: list[str]) -> None:
    project.write("@export_ready\ndef test_bad(): return None\n@export_ready\ndef test_after(): return ready()")
    assert project.run(*args).ret == pytest.ExitCode.TESTS_FAILED
    assert project.outcomes() == {"test_bad": "failed at case", "test_after": "infra"}


@pytest.mark.parametrize("option", ["junit", "html"])
def test_a_report_that_cannot_be_written(project: Project, option: str) -> None:
    """The path was free when the session started; otherwise it is a usage error (test_options)."""
    project.write("@export_ready\ndef test_x():\n    open('file', 'w').close()\n    return ready()\n")
    result = project.run(f"--export-ready-{option}=file/below")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["*= export readiness =*", "Ready: *", f"Cannot write {project.path}/file/below: *. Fix: *"]
    )
    assert (project.path / "exportready" / ("report.html" if option == "junit" else "junit.xml")).exists()


def test_rules_that_cannot_be_written_leave_the_report(project: Project) -> None:
    project.write(ONE)
    (project.path / "exportready" / "rules.html").mkdir(parents=True)
    result = project.run()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["Ready: *", "Cannot write the page of rules beside *report.html: *. Fix: *"])
    assert (project.path / "exportready" / "report.html").exists()


@pytest.mark.parametrize(
    ("where", "name"),
    [
        (Gather, "add"),
        (Gather, "run"),
        (junit, "write_junit"),
        (html, "write_html"),
        (rules_html, "write_rules"),
        (terminal, "write_summary"),
    ],
)
def test_a_crash_in_report_code(project: Project, monkeypatch: pytest.MonkeyPatch, where: Any, name: str) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("report")

    monkeypatch.setattr(where, name, broken)
    project.write(ONE)
    result = project.run()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["Cannot *: ZeroDivisionError: report. Fix: Report this error*"])
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


HOSTILE = r"""
@export_ready(stages=["train"])
@pytest.mark.parametrize(
    "text", ["\x00\x1b[31m", "\udcff", "<script>", "\u202e", "a" * 3000, "]]>", "::", "[x]"]
)
def test_id(text): return ready()

@export_ready
def test_message(): raise ValueError("\x00 \udcff \x1b[31m ]]> <script>")

@export_ready
def test_output():
    import sys, logging
    print("\x00 \udcff \x1b[31m ]]> <script>")
    sys.stderr.write("\x01\ud800")
    logging.getLogger().error("\x00 \udcff")
    print("x" * (1 << 20), flush=True)
    for _ in range(49): sys.stdout.write("y" * (1 << 20))
    return None

class Nasty(Exception):
    def __str__(self): raise RuntimeError

@export_ready
def test_unprintable(): raise Nasty
"""


def test_hostile_text(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8:backslashreplace")  # so that pytester can read it
    project.write(HOSTILE)
    result = project.run("--tb=line", "--show-capture=no", subprocess=True)
    result.assert_outcomes(passed=8, failed=3)
    assert sorted(set(project.outcomes().values())) == ["failed at case", "passed"]
    assert (project.path / "exportready/junit.xml").stat().st_size < 1 << 20
    assert (project.path / "exportready/report.html").exists()


def test_a_torch_that_cannot_be_imported(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every case fails to be collected; the reports are written and say so."""
    monkeypatch.setitem(sys.modules, "torch", None)
    project.write("@export_ready\ndef test_x(): return ready()\n")
    assert project.run().ret == pytest.ExitCode.INTERRUPTED
    monkeypatch.undo()
    text = (project.path / "exportready" / "junit.xml").read_text()
    assert "cannot be imported: ModuleNotFoundError" in text
