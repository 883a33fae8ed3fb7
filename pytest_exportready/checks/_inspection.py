"""Run the checks on a case: on the trained module, and on the exported program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pytest_exportready.analysis.execution.trial import Inspected
from pytest_exportready.case.finding import Finding
from pytest_exportready.case.sanitize import exception_text
from pytest_exportready.checks._check import Check, Subject, nothing

if TYPE_CHECKING:
    from torch.export import ExportedProgram


class ChecksCrashed(Exception):
    """Some checks raised an exception; the others ran. The message names each check and its exception."""


def by_requirement(checks: Mapping[str, Check]) -> dict[str, Check]:
    """Return ``checks``, each after those that it requires."""
    waiting = dict(checks)
    ordered: dict[str, Check] = {}
    while waiting:
        first = next(name for name, check in waiting.items() if not set(check.requires) & set(waiting))
        ordered[first] = waiting.pop(first)
    return ordered


def inspect_module(checks: Mapping[str, Check], subject: Subject) -> Iterator[Finding | Inspected]:
    """Yield the findings of each check, then which ran. A check is skipped if one that it requires failed.

    Raises:
        ChecksCrashed: After all checks ran, if any raised an exception.
    """
    checked: list[tuple[str, str]] = []
    failed: set[str] = set()
    crashes: list[str] = []
    for name, check in checks.items():
        if failed.intersection(check.requires):
            failed.add(name)
            continue
        if check.inspect is nothing:
            continue
        try:
            found = list(check.inspect(subject))
        except Exception as error:
            crashes.append(f"check {name} raised {exception_text(error)}")
            failed.add(name)
            continue
        checked.append((check.rule.code, name))
        if any(finding.severity == "error" for finding in found):
            failed.add(name)
        yield from found
    yield Inspected(tuple(checked), frozenset(failed))
    if crashes:
        raise ChecksCrashed("; ".join(crashes))


def inspect_program(
    checks: Mapping[str, Check], program: ExportedProgram, subject: Subject, failed: frozenset[str]
) -> Iterator[Finding | Inspected]:
    """Yield the findings of the checks in ``program``, except those that require a check in ``failed``."""
    for check in checks.values():
        if check.inspect_program is not None and not failed.intersection(check.requires):
            yield Inspected(((check.rule.code, check.rule.name),))
            yield from check.inspect_program(program, subject)
