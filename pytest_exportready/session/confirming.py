"""Run each failure again in fresh processes: one that passes there once is flaky, and no verdict on the model."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_exportready.report.junit import JUnitError, read_junit
from pytest_exportready.report.run import Run, TestResult

LIMIT = 20
"""Failures that are run again; with more, it is no chance that they fail."""

PATIENCE = 300.0
"""Seconds that a fresh process may take beyond three times what the case took."""


def confirmed(config: pytest.Config, run: Run, times: int, tell: Callable[[str], None]) -> Run:
    """``run`` after each of its failures was run again up to ``times`` times, the first pass being enough.

    One that passes becomes a pass with the failure as an earlier attempt; of one that does not, the failures in fresh
    processes are its earlier attempts. tell: is told about each of them.
    """
    failed = [result for result in run.results if result.outcome == "failed"]
    again: dict[str, TestResult] = {}
    for number, result in enumerate(failed[:LIMIT], 1):
        tell(f"confirming {number} of {len(failed[:LIMIT])}: {result.nodeid}")
        again[result.nodeid] = _confirmed(config, result, times)
        tell("  passes there: flaky" if again[result.nodeid].outcome == "passed" else "  fails there too")
    return replace(run, results=tuple(again.get(result.nodeid, result) for result in run.results))


def _confirmed(config: pytest.Config, result: TestResult, times: int) -> TestResult:
    failures: list[str] = []
    for number in range(1, times + 1):
        fresh = _in_fresh_process(config, result)
        if fresh is not None and fresh.outcome == "passed":
            message = f"{result.message} (and passed in fresh process {number} of {times})"
            return replace(fresh, earlier=(*result.earlier, message), seconds=result.seconds)
        if fresh is not None and fresh.outcome == "failed":
            failures.append(f"in fresh process {number} of {times}: {fresh.message}")
    return replace(result, earlier=(*result.earlier, *failures))


def _in_fresh_process(config: pytest.Config, result: TestResult) -> TestResult | None:
    """What the case comes to there; None when the process leaves no result."""
    with tempfile.TemporaryDirectory(prefix="exportready-") as folder:
        junit = Path(folder) / "junit.xml"
        command = [sys.executable, "-m", "pytest", *_arguments(config, result), *_into(Path(folder))]
        try:
            subprocess.run(
                command,
                cwd=config.invocation_params.dir,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=3 * result.seconds + PATIENCE,
                check=False,
            )
            results = read_junit(junit).results
        except (subprocess.TimeoutExpired, JUnitError):
            return None
    return next((one for one in results if one.nodeid == result.nodeid), None)


def _arguments(config: pytest.Config, result: TestResult) -> Iterator[str]:
    """Those of this run, with the one case instead of paths, in one process, without a part of anything."""
    paths = [str(path) for path in config.getoption("file_or_dir") or ()]
    for argument in map(str, config.invocation_params.args):
        if argument in paths:
            paths.remove(argument)
        else:
            yield argument
    file, colons, name = result.nodeid.partition("::")
    yield f"{config.rootpath / file}{colons}{name}"
    yield f"--rootdir={config.rootpath}"
    yield "--export-ready"
    yield "--export-ready-shard="
    if config.pluginmanager.hasplugin("xdist"):
        yield from ("-n", "0")


def _into(folder: Path) -> Iterator[str]:
    """Reports of the fresh process, its own and pytest's, go where they take the place of none."""
    yield f"--export-ready-junit={folder / 'junit.xml'}"
    yield f"--export-ready-html={folder / 'report.html'}"
    yield f"--junitxml={folder / 'pytest.xml'}"
    yield "--export-ready-confirm=0"
    yield "--export-ready-cache=off"
