"""Write a Run as a JUnit file, and read JUnit files as a Run: every report can be made from them."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.parsers import expat

import junitparser
from junitparser import xunit2

from pytest_exportready.case.readiness import StageResult
from pytest_exportready.report import junit_form, record, truncate
from pytest_exportready.report.files import write_atomically
from pytest_exportready.report.gc_pause import paused
from pytest_exportready.report.logs import full_output, with_attachment, write_logs
from pytest_exportready.report.run import Outcome, Run, TestResult, merged
from pytest_exportready.report.shard import RanShard, Shard
from pytest_exportready.report.shard_coverage import whole

PREFIX = "exportready."
FORM = f"{PREFIX}junit_form"
CHECKED = f"{PREFIX}checked."
SHARD = f"{PREFIX}shard."

Checked = tuple[tuple[str, str], ...]

_TYPES: dict[Outcome, str] = {
    "infra": f"{PREFIX}infra",
    "missing": f"{PREFIX}missing",
    "skipped": "pytest.skip",
    "xfailed": "pytest.xfail",
}


class JUnitError(Exception):
    """A file that is not a valid JUnit report; the message names the file and the reason."""


@paused()
def write_junit(run: Run, path: Path, form: str = "full") -> None:
    """Write ``run`` as one flat suite: ``failure`` is an export verdict, ``error`` an infrastructure error.

    Long output goes to files in ``<name>-logs`` beside it.

    Args:
        form: ``full`` or ``strict``.

    Raises:
        OSError: ``path`` cannot be written; an older file is still complete.
    """
    path = Path(path)
    logs = write_logs(run.worst_first, path)
    checked = _numbered(result.readiness.checked for result in run.results if result.readiness)
    suite: Any = junit_form.Suite("exportready")  # type: ignore[no-untyped-call]
    suite.timestamp = run.timestamp or None
    suite.hostname = run.hostname or None
    ours = {FORM: form, **{f"{CHECKED}{number}": json.dumps(pairs) for pairs, number in checked.items()}}
    ours |= dict(_shard_properties(run.shards))
    suite.append(junit_form.properties([*run.properties.items(), *ours.items()]))
    suite.add_testcases([_case(result, checked, logs.get(result.nodeid, ""), form) for result in run.results])
    suite.time = run.seconds
    report: Any = junit_form.Report("exportready")
    report.add_testsuite(suite)
    report.tests, report.failures, report.errors = suite.tests, suite.failures, suite.errors
    report.time = run.seconds
    buffer = io.BytesIO()
    report.write(buffer)
    write_atomically(path, buffer.getvalue())


@paused()
def read_junit(*paths: str | os.PathLike[str]) -> Run:
    """Return the Run in one file, or in several merged (shards, or legs of a matrix).

    JUnit of other tools has no records. Of several files, one that cannot be read becomes a result with the outcome
    ``infra``.

    Raises:
        JUnitError: No file can be read.
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
        raise JUnitError("\n".join(map(str, broken)) or "no JUnit file is given")
    return whole(merged(runs), runs)


def _numbered(checked: Iterable[Checked]) -> dict[Checked, int]:
    """Number the lists of checks: most cases ran the same, which are written once and named by number."""
    return {pairs: number for number, pairs in enumerate(dict.fromkeys(checked), 1)}


def _case(result: TestResult, checked: Mapping[Checked, int], log: str, form: str) -> Any:
    case: Any = junit_form.Case(result.name, result.classname, result.seconds)
    facts = {PREFIX + key: value for key, value in _facts(result, checked)}
    junit_form.put_facts(case, facts, result.file, result.line, form)
    retried = xunit2.FlakyFailure if result.outcome == "passed" else xunit2.RerunFailure
    for message in result.earlier:
        case.append(retried(message, f"{PREFIX}retry"))
    verdict = _verdict(result)
    if verdict is not None:
        verdict.text = result.text
        case.append(verdict)
    junit_form.put_output(case, with_attachment(result.output, log))
    return case


def _facts(result: TestResult, checked: Mapping[Checked, int]) -> Iterator[tuple[str, str]]:
    yield "nodeid", result.nodeid
    if result.outcome == "passed" and result.message:
        yield "note", result.message
    if result.left_out:
        yield "findings_left_out", str(result.left_out)
    if result.readiness is None:
        return
    if result.readiness.device:
        yield "device", result.readiness.device
    yield "stages", truncate.line("; ".join(map(_stage, result.readiness.stages)), truncate.NAME_LIMIT)
    for number, finding in enumerate(result.readiness.errors[:20], 1):
        yield f"finding.{number}", truncate.line(finding.one_line, truncate.NAME_LIMIT)
    yield "checked", str(checked[result.readiness.checked])
    yield "record", record.to_text(replace(result.readiness, checked=()))


def _stage(stage: StageResult) -> str:
    mode = f" {stage.mode}" if stage.mode not in ("", "non-strict") else ""
    reason = f": {stage.reason}" if stage.reason else ""
    return f"{stage.name}{mode} {stage.outcome} {stage.seconds:.3f} s{reason}"


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
        report = junit_form.Report.fromroot(_tree(path.read_bytes()))  # type: ignore[arg-type]
        return merged(_run(suite, path) for suite in report)
    except OSError as error:
        raise JUnitError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ElementTree.ParseError, expat.ExpatError) as error:
        raise JUnitError(f"{path} is not well-formed XML, perhaps truncated: {error}") from error
    except junitparser.JUnitXmlError as error:
        raise JUnitError(f"{path} is not a JUnit report: its root is neither testsuites nor testsuite") from error
    except RecursionError as error:
        raise JUnitError(f"{path} is not a JUnit report: its elements are nested too deeply") from error
    except (ValueError, LookupError) as error:
        raise JUnitError(f"{path}: {truncate.line(str(error))}") from error


def _tree(data: bytes) -> ElementTree.Element:
    """Parse a document without a DTD, so that no entity is expanded and no other file opened."""
    guard = expat.ParserCreate()
    guard.StartDoctypeDeclHandler = _refuse
    guard.Parse(data, True)
    return ElementTree.fromstring(data)


def _refuse(*_: object) -> None:
    raise ValueError("it declares a document type, which JUnit reports do not")


def _run(suite: Any, path: Path) -> Run:
    properties = junit_form.read_properties(suite)
    form = properties.pop(FORM, "full")
    numbers = [key for key in properties if key.startswith(CHECKED)]
    checked = {key.removeprefix(CHECKED): record.checked_from_text(properties.pop(key)) for key in numbers}
    shards = {key: properties.pop(key) for key in list(properties) if key.startswith(SHARD)}
    return Run(
        results=tuple(_result(case, form, checked, path) for case in suite),
        properties=properties,
        timestamp=suite.timestamp or "",
        hostname=suite.hostname or "",
        seconds=suite.time or 0.0,
        shards=tuple(_shards(shards)),
    )


def _shard_properties(shards: Sequence[RanShard]) -> Iterator[tuple[str, str]]:
    for number, shard in enumerate(shards, 1):
        yield from ((f"{SHARD}{number}.{field.name}", str(getattr(shard, field.name))) for field in fields(shard))


def _shards(properties: Mapping[str, str]) -> Iterator[RanShard]:
    """Yield the shards in properties, without invalid ones, which may be of another version."""
    for number in (key.removesuffix(".index") for key in properties if key.endswith(".index")):
        index, count, cases, digest = (properties.get(f"{number}.{field.name}", "") for field in fields(RanShard))
        with suppress(ValueError):
            shard = Shard.parse(f"{index}/{count}")
            yield RanShard(shard.number, shard.of, int(cases), truncate.line(digest, 100))


def _result(case: Any, form: str, checked: Mapping[str, Checked], path: Path) -> TestResult:
    facts, output = junit_form.take(case, form)
    name, classname, file = case.name or "(unnamed)", case.classname or "", facts.get("file", "")
    found = (case.child(kind) for kind in (junitparser.Failure, junitparser.Error, junitparser.Skipped))
    verdict = next((verdict for verdict in found if verdict is not None), None)
    text = facts.get(f"{PREFIX}record")
    try:
        readiness = record.from_text(text) if text else None
        line, seconds = max(int(facts.get("line", 0)), 0), case.time or 0.0
        left_out = int(facts.get(f"{PREFIX}findings_left_out", 0))
    except ValueError as error:
        raise ValueError(f"test case {name!r}: {error}") from error
    if readiness is not None and not readiness.checked:
        readiness = replace(readiness, checked=checked.get(facts.get(f"{PREFIX}checked", ""), ()))
    nodeid = facts.get(f"{PREFIX}nodeid") or "::".join(part for part in (classname or file, name) if part)
    return TestResult(
        nodeid=nodeid,
        classname=classname,
        name=name,
        file=file,
        line=line,
        seconds=seconds,
        outcome=_outcome(verdict),
        message=facts.get(f"{PREFIX}note", "") if verdict is None else verdict.message or "",
        text="" if verdict is None else verdict.text or "",
        output=full_output(output, nodeid, path),
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
