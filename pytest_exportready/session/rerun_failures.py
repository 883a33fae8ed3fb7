"""Run each failure again in new processes: one that passes there is flaky."""

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
"""The number of failures that are run again; if more fail, they are hardly flaky."""

TIMEOUT = 300.0
"""Seconds that a new process may take in addition to three times the duration of the case."""


_OUTPUT_OPTIONS = {
    "xmlpath": "--junitxml",
    "htmlpath": "--html",
    "report_log": "--report-log",
    "json_report_file": "--json-report-file",
    "log_file": "--log-file",
    "basetemp": "--basetemp",
}
"""Options of pytest and of plugins that name a file or folder that a run writes."""

_INTERACTIVE = ("--pdb", "--trace")
"""Flags that wait for input."""


def confirmed(config: pytest.Config, run: Run, times: int, write_line: Callable[[str], None]) -> Run:
    """Run each failure of ``run`` again, up to ``times`` times or until it passes, and return the updated run.

    A failure that passes becomes a pass with the failure as an earlier attempt. For one that fails again, the new
    failures are its earlier attempts. Ctrl-C keeps the results so far.

    Args:
        write_line: Prints a line about each failure.
    """
    failed = [result for result in run.results if result.outcome == "failed"]
    again: dict[str, TestResult] = {}
    try:
        for number, result in enumerate(failed[:LIMIT], 1):
            write_line(f"Rerunning failure {number} of {len(failed[:LIMIT])}: {result.nodeid}")
            again[result.nodeid] = after = _confirmed(config, result, times)
            write_line(f"  {_conclusion(result, after)}")
    except KeyboardInterrupt:
        write_line(f"Interrupted: {len(failed) - len(again)} of {len(failed)} failures were not rerun")
    return replace(run, results=tuple(again.get(result.nodeid, result) for result in run.results))


def _conclusion(before: TestResult, after: TestResult) -> str:
    if after.outcome == "passed":
        return "passed: flaky"
    return "failed again" if after.earlier != before.earlier else "inconclusive: not confirmed"


def _confirmed(config: pytest.Config, result: TestResult, times: int) -> TestResult:
    failures: list[str] = []
    for number in range(1, times + 1):
        fresh = _in_new_process(config, result)
        if fresh is not None and fresh.outcome == "passed":
            message = f"{result.message} (and passed in new process {number} of {times})"
            return replace(fresh, earlier=(*result.earlier, message), seconds=result.seconds)
        if fresh is not None and fresh.outcome == "failed":
            failures.append(f"in new process {number} of {times}: {fresh.message}")
    return replace(result, earlier=(*result.earlier, *failures))


def _in_new_process(config: pytest.Config, result: TestResult) -> TestResult | None:
    """Return the result of the case in a new process; None if the process wrote none."""
    with tempfile.TemporaryDirectory(prefix="exportready-") as folder:
        junit = Path(folder) / "junit.xml"
        command = [sys.executable, "-m", "pytest", *_arguments(config, result), *_into(config, Path(folder))]
        _run(command, config.invocation_params.dir, 3 * result.seconds + TIMEOUT)
        try:
            results = read_junit(junit).results
        except JUnitError:
            return None
    return next((one for one in results if one.nodeid == result.nodeid), None)


def _run(command: list[str], folder: Path, seconds: float) -> None:
    """Run ``command`` for at most ``seconds``, and end every process that it started."""
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
    """Yield the arguments of this run for the one case: no other path, no shard, no workers."""
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
    """Yield the arguments without paths. In ``-k tests tests`` the first is a value, and the second a path."""
    paths = [str(path) for path in config.getoption("file_or_dir") or ()]
    given = [argument for argument in map(str, config.invocation_params.args) if argument not in _INTERACTIVE]
    as_values = {path: given.count(path) - paths.count(path) for path in paths}
    before = ""
    for argument in given:
        if argument in paths and as_values[argument] > 0 and before.startswith("-"):
            as_values[argument] -= 1
            yield argument
        elif argument in paths:
            paths.remove(argument)
        elif argument != "--":
            yield argument
        before = argument


def _into(config: pytest.Config, folder: Path) -> Iterator[str]:
    """Yield arguments that make the new process write its files to ``folder``, so that it does not overwrite any."""
    yield f"--export-ready-junit={folder / 'junit.xml'}"
    yield f"--export-ready-html={folder / 'report.html'}"
    for name, flag in _OUTPUT_OPTIONS.items():
        if config.getoption(name, None):
            yield f"{flag}={folder / name}"
    if config.pluginmanager.hasplugin("cacheprovider"):
        yield from ("-o", f"cache_dir={folder / 'cache'}")
    yield "--export-ready-confirm=0"
    yield "--export-ready-cache=off"
