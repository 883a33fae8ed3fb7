"""Run each failure again in fresh processes: one that passes there once is flaky, and no verdict on the model."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_exportready.report.junit import JUnitError, read_junit
from pytest_exportready.report.run import Run, TestResult

LIMIT = 20
"""Failures that are run again; with more, it is no chance that they fail."""

PATIENCE = 300.0
"""Seconds that a fresh process may take beyond three times what the case took."""


_WRITTEN_BY_OTHERS = {
    "xmlpath": "--junitxml",
    "htmlpath": "--html",
    "report_log": "--report-log",
    "json_report_file": "--json-report-file",
    "log_file": "--log-file",
    "basetemp": "--basetemp",
}
"""Options, of pytest and of plugins, that name what a run writes."""

_ASKING = ("--pdb", "--trace")
"""Flags that wait for somebody at the keyboard."""


def confirmed(config: pytest.Config, run: Run, times: int, tell: Callable[[str], None]) -> Run:
    """``run`` after each of its failures was run again up to ``times`` times, the first pass being enough.

    One that passes becomes a pass with the failure as an earlier attempt; of one that does not, the failures in fresh
    processes are its earlier attempts. tell: is told about each of them. Ctrl-C ends it, and what is known stays.
    """
    failed = [result for result in run.results if result.outcome == "failed"]
    again: dict[str, TestResult] = {}
    try:
        for number, result in enumerate(failed[:LIMIT], 1):
            tell(f"confirming {number} of {len(failed[:LIMIT])}: {result.nodeid}")
            again[result.nodeid] = after = _confirmed(config, result, times)
            tell(f"  {_told(result, after)}")
    except KeyboardInterrupt:
        tell(f"confirming interrupted: {len(failed) - len(again)} of {len(failed)} not run again")
    return replace(run, results=tuple(again.get(result.nodeid, result) for result in run.results))


def _told(before: TestResult, after: TestResult) -> str:
    if after.outcome == "passed":
        return "passes there: flaky"
    return "fails there too" if after.earlier != before.earlier else "came to no verdict there: not confirmed"


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
        command = [sys.executable, "-m", "pytest", *_arguments(config, result), *_into(config, Path(folder))]
        _run(command, config.invocation_params.dir, 3 * result.seconds + PATIENCE)
        try:
            results = read_junit(junit).results
        except JUnitError:
            return None
    return next((one for one in results if one.nodeid == result.nodeid), None)


def _run(command: list[str], folder: Path, seconds: float) -> None:
    """Run it to its end, or to ours: then what it has started ends with it."""
    silent = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, cwd=folder, start_new_session=True, **silent)  # type: ignore[call-overload]
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _arguments(config: pytest.Config, result: TestResult) -> Iterator[str]:
    """Those of this run, with the one case instead of paths, in one process, without a part of anything."""
    yield from _without_paths(config)
    file, colons, name = result.nodeid.partition("::")
    path = config.rootpath / file
    yield f"{path}{colons}{name}" if path.exists() else result.nodeid  # a reference model is found by its id
    yield f"--rootdir={config.rootpath}"
    yield "--export-ready"
    yield "--export-ready-shard="
    yield "--export-ready-reference-models=never"
    if config.pluginmanager.hasplugin("xdist"):
        yield from ("-n", "0")
    if config.pluginmanager.hasplugin("_cov"):
        yield "--no-cov"


def _without_paths(config: pytest.Config) -> Iterator[str]:
    """``tests`` in ``-k tests tests`` is once the value of an option, and once a path."""
    paths = [str(path) for path in config.getoption("file_or_dir") or ()]
    given = [argument for argument in map(str, config.invocation_params.args) if argument not in _ASKING]
    spare = {path: given.count(path) - paths.count(path) for path in paths}
    before = ""
    for argument in given:
        if argument in paths and spare[argument] > 0 and before.startswith("-"):
            spare[argument] -= 1
            yield argument
        elif argument in paths:
            paths.remove(argument)
        elif argument != "--":
            yield argument
        before = argument


def _into(config: pytest.Config, folder: Path) -> Iterator[str]:
    """What the fresh process writes, whoever asked for it, goes where it takes the place of nothing."""
    yield f"--export-ready-junit={folder / 'junit.xml'}"
    yield f"--export-ready-html={folder / 'report.html'}"
    for name, flag in _WRITTEN_BY_OTHERS.items():
        if config.getoption(name, None):
            yield f"{flag}={folder / name}"
    if config.pluginmanager.hasplugin("cacheprovider"):
        yield from ("-o", f"cache_dir={folder / 'cache'}")
    yield "--export-ready-confirm=0"
    yield "--export-ready-cache=off"
