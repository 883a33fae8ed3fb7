"""Print the progress of a run: ``[3/8] vit.py::test_vit: train inspect ... -> ready (2.1 s)``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

from pytest_exportready.case.sanitize import plain


class Progress:
    """Print one line per case: stage by stage in this process, at the end of the case with xdist.

    With ``-v`` the stages are part of the lines of pytest; with ``-q`` only pytest prints.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._total = 0
        self._numbers: dict[str, int] = {}
        self._open = ""

    def collected(self, total: int) -> None:
        self._total = total
        if self._own_lines:
            self._terminal().showfspath = False
            self._terminal()._show_progress_info = False  # no "[ 50%]" between our stages

    def begin(self, nodeid: str) -> None:
        if self._own_lines and not self._config.pluginmanager.has_plugin("dsession"):
            self._begin(nodeid)

    def stage(self, name: str) -> None:
        if self._config.getoption("verbose", 0) >= 0:
            self._write(f"{name} ")

    def end(self, report: pytest.TestReport) -> None:
        outcome = _outcome(report)
        if outcome is None or not self._own_lines:
            return
        if self._open != report.nodeid:
            self._begin(report.nodeid)
        word, color = outcome
        self._write(f"-> {word} ({report.duration:.1f} s)", end=True, **{color: True})
        self._open = ""

    def status(self, report: Any, status: Any) -> Any:
        """Return ``status`` without the letter of pytest, which would be added to our line."""
        if self._own_lines and isinstance(report, pytest.TestReport) and _outcome(report) is not None:
            category, _, word = status
            return category, "", word
        return status

    def _begin(self, nodeid: str) -> None:
        number = self._numbers.setdefault(nodeid, len(self._numbers) + 1)
        path, colons, rest = nodeid.partition("::")
        name = plain(f"{path.rpartition('/')[2]}{colons}{rest}", 200)
        self._write(f"[{number}/{self._total}] {name}: ", start=True)
        self._open = nodeid

    @property
    def _own_lines(self) -> bool:  # not cached: live logging turns -v on after the session has begun
        return self._config.getoption("verbose", 0) == 0 and self._terminal() is not None

    def _terminal(self) -> Any:
        return self._config.pluginmanager.get_plugin("terminalreporter")

    def _write(self, text: str, start: bool = False, end: bool = False, **markup: bool) -> None:
        terminal = self._terminal()
        if terminal is None:
            return
        capture = self._config.pluginmanager.get_plugin("capturemanager")
        with _stderr_kept(), capture.global_and_fixture_disabled() if capture else nullcontext():
            if start:
                terminal.ensure_newline()
            terminal.write(text, flush=True, **markup)
            if end:
                terminal.line("")


@contextmanager
def _stderr_kept() -> Iterator[None]:
    """Keep ``sys.stderr``: pytest sets it when it resumes capturing, and would undo a redirection."""
    redirected = sys.stderr
    try:
        yield
    finally:
        sys.stderr = redirected


def _outcome(report: pytest.TestReport) -> tuple[str, str] | None:
    """Return the outcome of a case and its color; None for a report that does not end the case."""
    if getattr(report, "context", None) is not None:  # of a subtest
        return None
    if report.when not in ("setup", "call", "teardown"):
        return "lost, its process crashed", "red"
    if report.when != "call" and report.passed:
        return None
    if report.skipped:
        data = getattr(report, "exportready", None)
        at = f" at {data['failed_stage']}" if data and data["failed_stage"] else ""
        return ("xfailed" if hasattr(report, "wasxfail") else "skipped") + at, "yellow"
    if report.when != "call":
        return f"error in {report.when}", "red"
    return _outcome_of_call(report)


def _outcome_of_call(report: pytest.TestReport) -> tuple[str, str]:
    data = getattr(report, "exportready", None)
    if data is None:
        return ("passed without running the stages", "yellow") if report.passed else ("failed", "red")
    if data["outcome"] == "infra":
        return f"inconclusive (infrastructure error at {data['failed_stage']})", "yellow"
    if data["outcome"] == "failed":
        return f"NOT READY at {data['failed_stage']}", "red"
    return ("ready", "green") if report.passed else ("ready, but FAILED", "red")
