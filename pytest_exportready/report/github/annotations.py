"""Annotations: workflow commands that show a finding at its line."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_exportready.case.explained import with_fix
from pytest_exportready.case.finding import Finding
from pytest_exportready.report import truncate
from pytest_exportready.report.run import Run, TestResult

LIMIT = 10
"""GitHub shows ten of each kind per step: https://docs.github.com/en/actions/reference/limits (annotations)."""


def commands(run: Run) -> list[str]:
    """Return lines to print: the verdict, then the first finding of each cause; at most ten errors and ten warnings."""
    kind = {"ready": "notice", "not ready": "error", "inconclusive": "error"}[run.state]
    errors = [command(kind, run.verdict, title="export readiness")]
    warnings: list[str] = []
    seen: set[tuple[str, str, str, int]] = set()
    for result, finding in _reported(run):
        key = (finding.code, finding.file, finding.problem, finding.line)
        chosen = errors if finding.blocks else warnings
        if key in seen or len(chosen) >= LIMIT:
            continue
        seen.add(key)
        chosen.append(
            command(
                "error" if finding.blocks else "warning",
                with_fix(f"{finding.place}: {finding.problem}", finding.fix),
                file=finding.file or result.file,
                line=str(finding.line if finding.file else result.line or ""),
                title=f"{finding.code} {finding.name} ({run.labels[result.nodeid]})",
            )
        )
    return [*errors, *warnings]


def _reported(run: Run) -> Iterator[tuple[TestResult, Finding]]:
    for result in run.worst_first:
        findings = result.readiness.findings if result.readiness else ()
        yield from ((result, finding) for finding in findings if finding.severity != "note" and not finding.ignored)


def command(kind: str, message: str, **properties: str) -> str:
    """Return a workflow command of one line, without properties that are empty or 0."""
    given = {key: value for key, value in properties.items() if value not in ("", "0")}
    pairs = ",".join(f"{key}={_escaped(value, (':', ','))}" for key, value in given.items())
    return f"::{kind}{' ' * bool(pairs)}{pairs}::{_escaped(truncate.line(message, 1_000))}"


def _escaped(text: str, more: tuple[str, ...] = ()) -> str:
    """Percent-encode the characters that would end the command or a property."""
    for character in ("%", "\r", "\n", *more):
        text = text.replace(character, f"%{ord(character):02X}")
    return text
