"""The texts of one case on the HTML page."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pytest_exportready.case.finding import Finding
from pytest_exportready.case.readiness import Readiness
from pytest_exportready.report import truncate
from pytest_exportready.report.cause import FailureCause, of_finding
from pytest_exportready.report.run import TestResult

EXCERPT = 16 * 1024
"""Characters of a failure or log on the page; the JUnit file has more."""

WORDS = {
    "passed": "passed",
    "failed": "failed",
    "infra": "inconclusive",
    "skipped": "skipped",
    "xfailed": "failed as expected",
    "missing": "missing",
}


def behind(cause: FailureCause, results: Iterable[TestResult]) -> Finding | None:
    """Return the first finding of ``cause`` in ``results`` that has a patch, else the first; None if there is none."""
    errors = (finding for result in results if result.readiness for finding in result.readiness.errors)
    found = [finding for finding in errors if of_finding(finding) == cause]
    return next((finding for finding in found if finding.patch), found[0] if found else None)


def needs_attention(result: TestResult) -> bool:
    """Return whether the case did not pass at once with stage results, or has warnings."""
    if result.outcome != "passed" or result.earlier:
        return True
    findings = result.readiness.findings if result.readiness else ()
    return not result.proved or any(finding.severity != "note" for finding in findings)


def reason(result: TestResult) -> str:
    """Return the line below a case that needs attention."""
    if result.outcome == "passed":
        if result.earlier:
            return f"passed only in attempt {len(result.earlier) + 1}"
        return result.message or ("" if result.proved else "passed without stage results")
    if result.outcome == "failed" and result.readiness and result.readiness.errors:
        first = result.readiness.errors[0]
        return f"{first.place}: {first.message}"
    if result.outcome in ("skipped", "xfailed", "missing"):
        return f"{WORDS[result.outcome]}: {result.message}" if result.message else WORDS[result.outcome]
    return result.message or WORDS[result.outcome]


def command(result: TestResult) -> str:
    """Return the command that runs the case again."""
    return f"pytest --export-ready {shlex.quote(result.nodeid)}"


def excerpt(text: str) -> str:
    return truncate.block(text, EXCERPT)


def facts(measured: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in measured.items():
        if value is not None:
            yield key.replace("_", " "), truncate.line(_shown(value), 300)


def shares(readiness: Readiness) -> list[tuple[str, float, float, float]]:
    """Return name, seconds, start and length in percent of all, for each stage that took time."""
    total = sum(stage.seconds for stage in readiness.stages)
    begun, found = 0.0, []
    for stage in readiness.stages:
        if total and stage.seconds:
            found.append((stage.name, stage.seconds, begun / total * 100, stage.seconds / total * 100))
        begun += stage.seconds
    return found


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list) and not any(isinstance(item, (dict, list)) for item in value):
        return ", ".join(map(_shown, value)) or "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
