"""A Run as a JUnit file, and JUnit files as a Run: the only record, from which every report can be made."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.parsers import expat

import junitparser
from junitparser import xunit2

from pytest_exportready.report import budget, record
from pytest_exportready.report.files import write_atomically
from pytest_exportready.report.run import Outcome, Run, TestResult, merged

PREFIX = "exportready."

_TYPES: dict[Outcome, str] = {
    "infra": f"{PREFIX}infra",
    "missing": f"{PREFIX}missing",
    "skipped": "pytest.skip",
    "xfailed": "pytest.xfail",
}


class JUnitError(Exception):
    """A file that is not a JUnit report that can be trusted; the message names the file and says why."""


class _Case(xunit2.TestCase):
    file = junitparser.Attr()
    line = junitparser.IntAttr()


class _Suite(xunit2.TestSuite):
    testcase = _Case


class _Report(xunit2.JUnitXml):
    testsuite = _Suite


def write_junit(run: Run, path: Path) -> None:
    """Write ``run`` as one flat suite: ``failure`` is an export verdict, ``error`` the runner's fault.

    Raises OSError when ``path`` cannot be written; an older file is then still whole.
    """
    suite: Any = _Suite("exportready")  # type: ignore[no-untyped-call]
    suite.timestamp = run.timestamp or None
    suite.hostname = run.hostname or None
    suite.append(_written(run.properties.items()))
    suite.add_testcases([_case(result) for result in run.results])
    suite.time = run.seconds
    report: Any = _Report("exportready")
    report.add_testsuite(suite)
    report.tests, report.failures, report.errors = suite.tests, suite.failures, suite.errors
    report.time = run.seconds
    buffer = io.BytesIO()
    report.write(buffer)
    write_atomically(Path(path), buffer.getvalue())


def read_junit(*paths: str | os.PathLike[str]) -> Run:
    """The Run in one file, or several merged (shards, or legs of a matrix).

    Foreign JUnit is read too, without records. Of several files, one that cannot be read becomes a result of
    outcome ``infra`` that says so. Raises JUnitError when there is none that can.
    """
    runs: list[Run] = []
    broken: list[JUnitError] = []
    for path in map(Path, paths):
        try:
            runs.append(_read(path))
        except JUnitError as error:
            broken.append(error)
            runs.append(Run(results=(_unreadable(path, error),)))
    if len(broken) == len(runs):
        raise JUnitError("\n".join(map(str, broken)) or "no JUnit file was given")
    return merged(runs)


def _case(result: TestResult) -> Any:
    case: Any = _Case(result.name, result.classname, result.seconds)
    case.file = result.file or None
    if result.line:
        case.line = result.line
    case.append(_written((PREFIX + key, value) for key, value in _properties(result)))
    retried = xunit2.FlakyFailure if result.outcome == "passed" else xunit2.RerunFailure
    for message in result.earlier:
        case.append(retried(message, f"{PREFIX}retry"))
    verdict = _verdict(result)
    if verdict is not None:
        verdict.text = result.text
        case.append(verdict)
    if result.output:
        case.system_out = result.output
    return case


def _written(pairs: Iterable[tuple[str, str]]) -> Any:
    properties: Any = junitparser.Properties()  # type: ignore[no-untyped-call]
    for key, value in pairs:
        properties.add_property(junitparser.Property(key, value))
    return properties


def _told(element: Any) -> dict[str, str]:
    """The properties of a suite or test case."""
    properties = element.child(junitparser.Properties)
    return {prop.name or "": prop.value or "" for prop in properties or ()}


def _properties(result: TestResult) -> Iterator[tuple[str, str]]:
    yield "nodeid", result.nodeid
    if result.outcome == "passed" and result.message:
        yield "note", result.message
    if result.left_out:
        yield "findings_left_out", str(result.left_out)
    if result.readiness is None:
        return
    for stage in result.readiness.stages:
        told = f": {stage.reason}" if stage.reason else ""
        mode = f".{stage.mode}" if stage.mode not in ("", "non-strict") else ""
        yield f"stage.{stage.name}{mode}", f"{stage.outcome} {stage.seconds:.3f} s{told}"
    for number, finding in enumerate(result.readiness.errors[:20], 1):
        yield f"finding.{number}", budget.line(str(finding), budget.NAME_LIMIT)
    yield "record", record.to_text(result.readiness)


def _verdict(result: TestResult) -> Any:
    if result.outcome == "passed":
        return None
    if result.outcome == "failed":
        return junitparser.Failure(result.message, PREFIX + (result.stage or "test"))
    kind = junitparser.Error if result.outcome in ("infra", "missing") else junitparser.Skipped
    return kind(result.message, _TYPES[result.outcome])


def _unreadable(path: Path, error: JUnitError) -> TestResult:
    return TestResult(str(path), "exportready.report", path.name, outcome="infra", message=str(error))


def _read(path: Path) -> Run:
    try:
        report = _Report.fromroot(_tree(path.read_bytes()))  # type: ignore[arg-type]
        return merged(_run(suite) for suite in report)
    except OSError as error:
        raise JUnitError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ElementTree.ParseError, expat.ExpatError) as error:
        raise JUnitError(f"{path}: not well-formed XML, perhaps cut off: {error}") from error
    except junitparser.JUnitXmlError as error:
        raise JUnitError(f"{path}: not a JUnit report: no testsuites or testsuite at its root") from error
    except RecursionError as error:
        raise JUnitError(f"{path}: its elements are nested too deeply for a JUnit report") from error
    except (ValueError, LookupError) as error:
        raise JUnitError(f"{path}: {budget.line(str(error))}") from error


def _tree(data: bytes) -> ElementTree.Element:
    """The tree, never of a document with a DTD: no entity is expanded and nothing else is opened."""
    guard = expat.ParserCreate()
    guard.StartDoctypeDeclHandler = _refuse
    guard.Parse(data, True)
    return ElementTree.fromstring(data)


def _refuse(*_: object) -> None:
    raise ValueError("declares a document type, which no JUnit report does; it was not read")


def _run(suite: Any) -> Run:
    return Run(
        results=tuple(_result(case) for case in suite),
        properties=_told(suite),
        timestamp=suite.timestamp or "",
        hostname=suite.hostname or "",
        seconds=suite.time or 0.0,
    )


def _result(case: Any) -> TestResult:
    told = _told(case)
    name, classname, file = case.name or "(unnamed)", case.classname or "", case.file or ""
    found = (case.child(kind) for kind in (junitparser.Failure, junitparser.Error, junitparser.Skipped))
    verdict = next((verdict for verdict in found if verdict is not None), None)
    text = told.get(f"{PREFIX}record")
    try:
        readiness = record.from_text(text) if text else None
        line, seconds = max(case.line or 0, 0), case.time or 0.0
        left_out = int(told.get(f"{PREFIX}findings_left_out", 0))
    except ValueError as error:
        raise ValueError(f"test case {name!r}: {error}") from error
    return TestResult(
        nodeid=told.get(f"{PREFIX}nodeid") or "::".join(part for part in (classname or file, name) if part),
        classname=classname,
        name=name,
        file=file,
        line=line,
        seconds=seconds,
        outcome=_outcome(verdict),
        message=told.get(f"{PREFIX}note", "") if verdict is None else verdict.message or "",
        text="" if verdict is None else verdict.text or "",
        output="\n".join(part for part in (case.system_out, case.system_err) if part),
        readiness=readiness,
        earlier=tuple(retry.message or "" for retry in case.interim_result),
        left_out=left_out,
    )


def _outcome(verdict: Any) -> Outcome:
    if verdict is None:
        return "passed"
    if isinstance(verdict, junitparser.Failure):
        return "failed"
    if isinstance(verdict, junitparser.Error):
        return "missing" if verdict.type == _TYPES["missing"] else "infra"
    return "xfailed" if verdict.type == _TYPES["xfailed"] else "skipped"
