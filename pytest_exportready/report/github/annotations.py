"""Annotations: workflow commands that put a finding beside its line. GitHub shows ten of a kind a step: we choose."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_exportready.case.explained import with_fix
from pytest_exportready.case.finding import Finding
from pytest_exportready.report import truncate
from pytest_exportready.report.run import Run, TestResult

LIMIT = 10
"""Of each kind a step: https://docs.github.com/en/actions/reference/limits (annotations)."""


def commands(run: Run) -> list[str]:
    """Lines to print: the verdict, then the findings of each cause's first case; at most ten errors, ten warnings."""
    kind = {"ready": "notice", "not ready": "error", "can't tell": "error"}[run.state]
    errors = [command(kind, run.verdict, title="export readiness")]
    warnings: list[str] = []
    seen: set[tuple[str, str, str, int]] = set()
    for result, finding in _told(run):
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


def _told(run: Run) -> Iterator[tuple[TestResult, Finding]]:
    for result in run.worst_first:
        findings = result.readiness.findings if result.readiness else ()
        yield from ((result, finding) for finding in findings if finding.severity != "note" and not finding.ignored)


def command(kind: str, message: str, **properties: str) -> str:
    """A workflow command of one line. Properties that are empty, or line 0, are left out."""
    told = ",".join(
        f"{key}={_escaped(value, (':', ','))}" for key, value in properties.items() if value and value != "0"
    )
    return f"::{kind}{f' {told}' if told else ''}::{_escaped(truncate.line(message, 1_000))}"


def _escaped(text: str, more: tuple[str, ...] = ()) -> str:
    """By the rules of workflow commands: what would end the line, or a property, is percent-encoded."""
    for character in ("%", "\r", "\n", *more):
        text = text.replace(character, f"%{ord(character):02X}")
    return text
