"""Diagnosis of failed exports: one kind of failure per file."""

from __future__ import annotations

import sys
from functools import cache

from pytest_exportready.analysis.execution.export_call_source import call_text
from pytest_exportready.analysis.execution.trial import Trial
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.sanitize import exception_text
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure
from pytest_exportready.discover import discover

UNCLASSIFIED = Rule(
    "ER400",
    "export_succeeds",
    """torch.export succeeds.

    Why it matters:
        The failure is of a kind that no other rule knows. The finding quotes the first paragraph of the error, and its
        fix ends in the call that raises it.

    Severity:
        error: the export fails.
    """,
)


@cache
def all_diagnoses() -> dict[str, Diagnosis]:
    """Return every diagnosis by name, in the order in which they are tried."""
    found = discover(sys.modules[__name__], "DIAGNOSIS", Diagnosis)
    turns = ("first", "middle", "last")
    return dict(sorted(found.items(), key=lambda item: turns.index(item[1].turn)))


def diagnose(failure: Failure) -> Finding:
    """Return the finding of the first diagnosis that knows this failure, else an unclassified one."""
    for diagnosis in all_diagnoses().values():
        finding = diagnosis.explain(failure)
        if finding is not None:
            return finding
    file, line = failure.place
    message = (
        f"torch.export ({failure.trial.mode}) raised {type(failure.error).__name__}, which no other rule explains."
    )
    change = "Change this line or move it out of `forward`. " if file else ""
    fix = f"{change}Reproduce the error with `torch.export.export(model, {_call(failure.trial)})`."
    says = exception_text(failure.error)
    return UNCLASSIFIED.error(failure.where, message, fix, file=file, line=line, torch_says=says)


def _call(trial: Trial) -> str:
    options = trial.options
    shapes = 'every input {0: Dim("batch")}' if options.dynamic_batch else options.dynamic_shapes
    return call_text(*trial.call, shapes, strict=trial.mode == "strict")
