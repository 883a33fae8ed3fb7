"""What the terminal shows while cases run: ``[3/8] vit: train, inspect, eager, export ...: ready (2.1 s)``."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest


class Progress:
    """One line a case. In this process it grows stage by stage; with xdist it is written when the case has ended."""

    def __init__(self, config: pytest.Config) -> None:
        self._total = 0
        self._done = 0
        self._open = False
        self._config = config
        self._own_lines = config.get_verbosity() == 0

    def collected(self, total: int) -> None:
        self._total = total
        if self._own_lines and self._terminal() is not None:
            self._terminal().showfspath = False

    def begin(self, item: pytest.Item) -> None:
        if self._own_lines:
            self._write(f"[{self._done + 1}/{self._total}] {_short(item.nodeid)}: ", start=True)

    def stage(self, name: str) -> None:
        self._write(f"{name} ")

    def end(self, report: pytest.TestReport) -> None:
        if report.when != "call" or not hasattr(report, "exportready"):
            return
        self._done += 1
        if not self._own_lines:
            return
        if not self._open:
            self._write(f"[{self._done}/{self._total}] {_short(report.nodeid)}: ", start=True)
        data = report.exportready
        word = "ready" if data["ready"] else f"{'xfail' if report.skipped else 'NOT READY'} at {data['failed_stage']}"
        self._write(f"-> {word} ({data['seconds']:.1f} s)", end=True, green=data["ready"], red=not data["ready"])

    def status(self, report: Any) -> tuple[str, str, str] | None:
        """No letter of pytest's own beside our line."""
        if not self._own_lines or not hasattr(report, "exportready") or self._terminal() is None:
            return None
        category = "xfailed" if report.skipped and hasattr(report, "wasxfail") else report.outcome
        return category, "", category.upper()

    def _terminal(self) -> Any:
        return self._config.pluginmanager.get_plugin("terminalreporter")

    def _write(self, text: str, start: bool = False, end: bool = False, **markup: bool) -> None:
        terminal = self._terminal()
        if terminal is None:
            return
        capture = self._config.pluginmanager.get_plugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            if start:
                terminal.ensure_newline()
            terminal.write(text, flush=True, **markup)
            if end:
                terminal.line("")
        self._open = not end


def _short(nodeid: str) -> str:
    return nodeid.rsplit("/", 1)[-1]
