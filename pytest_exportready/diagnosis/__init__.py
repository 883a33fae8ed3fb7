"""One kind of export failure per file: an exception becomes a finding with its place and its fix."""

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
    "torch.export raised something that no diagnosis knows. The message is the first paragraph of its error, the fix"
    " ends in the call that raises it.",
)


@cache
def all_diagnoses() -> dict[str, Diagnosis]:
    """Every diagnosis by name, in the order in which they are asked."""
    found = discover(sys.modules[__name__], "DIAGNOSIS", Diagnosis)
    turns = ("first", "middle", "last")
    return dict(sorted(found.items(), key=lambda item: turns.index(item[1].turn)))


def diagnose(failure: Failure) -> Finding:
    """The finding of the first diagnosis that knows this failure, else an unclassified one."""
    for diagnosis in all_diagnoses().values():
        finding = diagnosis.explain(failure)
        if finding is not None:
            return finding
    file, line = failure.place
    message = f"unclassified: torch.export ({failure.trial.mode}) raised {type(failure.error).__name__}"
    fix = "mend the line named, or keep it out of forward; " * bool(file)
    fix += f"to reproduce: torch.export.export(model, {_call(failure.trial)})"
    says = exception_text(failure.error)
    return UNCLASSIFIED.error(failure.where, message, fix, file=file, line=line, torch_says=says)


def _call(trial: Trial) -> str:
    case, options = trial.case, trial.options
    shapes = 'every input {0: Dim("batch")}' if options.dynamic_batch else options.dynamic_shapes
    return call_text(case.args, case.kwargs, shapes, strict=trial.mode == "strict")
