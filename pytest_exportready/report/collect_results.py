"""Collect the reports of a session from pytest, as one result for each node id."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping
from datetime import datetime
from itertools import chain
from typing import Any

import pytest

from pytest_exportready.case.readiness import Readiness
from pytest_exportready.report.gc_pause import paused
from pytest_exportready.report.run import Outcome, Run, TestResult

Reports = list[pytest.TestReport]


class Gather:
    """The results of a session, from its reports.

    A call report may have the attributes ``exportready``, the ``Readiness.to_dict()`` of its case, and
    ``exportready_output``, what torch printed.
    """

    def __init__(self) -> None:
        self._attempts: dict[str, list[Reports]] = {}
        self._broken: dict[str, pytest.CollectReport] = {}
        self._began = datetime.now().astimezone()
        self._clock = time.perf_counter()

    def add(self, report: pytest.TestReport) -> None:
        """Add a report of ``pytest_runtest_logreport``. A setup after other phases of a node id begins a rerun."""
        attempts = self._attempts.setdefault(report.nodeid, [])
        if not attempts or (report.when == "setup" and attempts[-1]):
            attempts.append([])
        attempts[-1].append(report)

    def add_collect(self, report: pytest.CollectReport) -> None:
        """Add a report of ``pytest_collectreport``; the same failure in several workers counts once."""
        if report.failed:
            self._broken.setdefault(report.nodeid, report)

    @paused()
    def run(self, properties: Mapping[str, str]) -> Run:
        """Return everything so far as a Run that began when this object was made.

        The records move from the reports to the Run, because pytest keeps every report until it exits.
        """
        results = self.results()
        for report in chain.from_iterable(chain.from_iterable(self._attempts.values())):
            vars(report).pop("exportready", None)
            vars(report).pop("exportready_output", None)
        self._attempts.clear()
        return Run(
            results=results,
            properties=dict(properties),
            timestamp=self._began.isoformat(timespec="seconds"),
            hostname=platform.node(),
            seconds=time.perf_counter() - self._clock,
        )

    def results(self) -> tuple[TestResult, ...]:
        """Return one result for each node id that ran or could not be collected."""
        broken = [_uncollected(report) for report in self._broken.values()]
        ran = [_result(nodeid, attempts) for nodeid, attempts in self._attempts.items()]
        return (*broken, *ran)


def _uncollected(report: pytest.CollectReport) -> TestResult:
    path, _, inside = report.nodeid.partition("::")
    return TestResult(
        nodeid=report.nodeid,
        classname=_dotted(path),
        name=f"collection of {inside or path or 'the session'}",
        file=path,
        outcome="infra",
        message=f"cannot be collected: {_reason(report)}",
        text=_full(report),
        output=_output([report]),
    )


def _names(nodeid: str) -> tuple[str, str, str]:
    """Return classname, name and path of a node id, as pytest's own JUnit report has them."""
    path, _, rest = nodeid.partition("::")
    names, bracket, params = rest.partition("[")
    *classes, last = names.split("::")
    return ".".join([_dotted(path), *classes]), f"{last}{bracket}{params}" or path, path


def _result(nodeid: str, attempts: list[Reports]) -> TestResult:
    reports = attempts[-1]
    outcome, message, text = _judge(reports)
    readiness = _readiness(reports)
    if readiness is not None and readiness.outcome != "passed" and outcome in ("passed", "failed"):
        outcome, message = readiness.outcome, _record_reason(readiness) or message
    classname, name, path = _names(nodeid)
    file, line, _ = reports[0].location or (path, None, "")
    return TestResult(
        nodeid=nodeid,
        classname=classname,
        name=name,
        file=path if file.startswith("..") else file.replace(os.sep, "/"),
        line=0 if line is None else line + 1,
        seconds=sum(report.duration for attempt in attempts for report in attempt if not _subtest(report)),
        outcome=outcome,
        message=message,
        text=text,
        output=_output(reports),
        readiness=readiness,
        earlier=tuple(_judge(attempt)[1] for attempt in attempts[:-1]),
    )


def _judge(reports: Reports) -> tuple[Outcome, str, str]:
    """Return outcome, reason in one line, and full reason of one attempt."""
    phases = {report.when: report for report in reports if not _subtest(report)}
    setup, call, teardown = (phases.get(when) for when in ("setup", "call", "teardown"))
    crash = next((phases[when] for when in phases.keys() - {"setup", "call", "teardown"}), None)
    if crash is not None:
        return "infra", _reason(crash), _full(crash)
    if setup is not None and _bad(setup):
        return "infra", f"setup: {_reason(setup)}", _full(setup)
    if setup is not None and setup.skipped:
        return "xfailed" if hasattr(setup, "wasxfail") else "skipped", _skip_reason(setup), ""
    bad_subtests = [report for report in reports if _subtest(report) and _bad(report)]
    outcome, message, text = _judge_call(call, bad_subtests)
    if teardown is not None and _bad(teardown):
        text = "\n\n".join(part for part in (text, f"teardown:\n{_full(teardown)}") if part)
        if outcome != "failed":
            outcome, message = "infra", f"teardown: {_reason(teardown)}"
    return outcome, message, text


def _judge_call(call: pytest.TestReport | None, bad_subtests: Reports) -> tuple[Outcome, str, str]:
    if bad_subtests:
        first = bad_subtests[0]
        message = f"{len(bad_subtests)} failed: {_subtest(first)}: {_reason(first)}"
        text = "\n\n".join(f"subtest {_subtest(report)}:\n{_full(report)}" for report in bad_subtests)
        return "failed", f"subtests, {message}", text
    if call is None:
        return "infra", "did not finish: the session or its process ended while it ran", ""
    if _bad(call):
        return "failed", _reason(call), _full(call)
    if call.skipped:
        return "xfailed" if hasattr(call, "wasxfail") else "skipped", _skip_reason(call), ""
    if hasattr(call, "wasxfail"):
        return "passed", f"passed although expected to fail: {call.wasxfail}", ""
    return "passed", "", ""


def _bad(report: pytest.TestReport) -> bool:
    """Return whether a phase failed; pytest-rerunfailures calls a failed attempt ``rerun``."""
    return report.outcome not in ("passed", "skipped")


def _subtest(report: pytest.TestReport) -> str:
    """Return the name of a subtest by its message and parameters; empty for the report of a whole test."""
    context: Any = getattr(report, "context", None)
    if context is None:
        return ""
    params = ", ".join(f"{key}={value}" for key, value in context.kwargs.items())
    parts = (f"[{context.msg}]" if context.msg is not None else "", f"({params})" if params else "")
    return " ".join(part for part in parts if part) or "(unnamed)"


def _readiness(reports: Reports) -> Readiness | None:
    records = [report.exportready for report in reports if getattr(report, "exportready", None)]
    return Readiness.from_dict(records[-1]) if records else None


def _record_reason(readiness: Readiness) -> str:
    if readiness.errors:
        return str(readiness.errors[0])
    return next((f"{s.name}: {s.reason}" for s in readiness.stages if s.outcome in ("failed", "infra")), "")


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return str(crash.message)
    lines = [line for line in _full(report).splitlines() if line.strip()]
    errors = [line[1:].strip() for line in lines if line.startswith("E  ")]
    return errors[-1] if errors else next(iter(lines), "no reason given")


def _full(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the full failure, without the worker that pytest prints before it, so that -n does not change it."""
    return "" if report.longrepr is None else str(report.longrepr)


def _skip_reason(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return str(report.wasxfail)
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else _reason(report)
    return reason.removeprefix("Skipped: ")


def _output(reports: list[Any]) -> str:
    sections = dict.fromkeys(section for report in reports for section in report.sections)
    sections |= {("Output of torch", getattr(report, "exportready_output", "")): None for report in reports}
    return "\n".join(f"--- {title} ---\n{content}" for title, content in sections if content.strip())


def _dotted(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")
