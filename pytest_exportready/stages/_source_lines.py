"""Lines in the source of ``forward`` that the export did not name, and that depend on values or write state."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_exportready.analysis.execution.trial import Trial
from pytest_exportready.analysis.module.wrappers import unwrap
from pytest_exportready.analysis.source.user_frames import user_place
from pytest_exportready.analysis.source.value_dependent_lines import Suspect, suspects
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.sanitize import exception_text

RULE = Rule(
    "ER130",
    "no_value_dependent_source",
    "A line of forward, or of what it calls, branches on tensor values, takes Python numbers from them, or writes state"
    " that outlives the call. Found in the source, without running it, so that it is told only: whether it is a fault, "
    "the export and the stages after it decide. Where the export failed these are the other such lines; "
    "where it passed, a branch on values is odd and should be covered by more_inputs.",
)
MOST = 8


def other_lines(trial: Trial) -> Iterator[Finding]:
    """Yield notes about such lines. They decide nothing; neither does a failure to read the source."""
    passed = trial.program is not None
    if not passed and trial.error is None:
        return
    case = trial.case
    named = user_place(trial.error) if trial.error is not None else ("", 0)
    verdict = "the export passed all the same" if passed else "the export failed"
    try:
        every = suspects(unwrap(case.model)[0], case.args, case.kwargs)
    except Exception as error:
        yield RULE.note("", f"the source could not be followed: {exception_text(error)}", "report this fault")
        return
    found = [s for s in every if s.sure and _tells(s, passed) and (s.file, s.line) != named]
    for suspect in found[:MOST]:
        yield RULE.note("", f"{suspect.words}; {verdict}", _fix(suspect), file=suspect.file, line=suspect.line)


def _tells(suspect: Suspect, passed: bool) -> bool:
    """A program keeps numbers taken from tensors, and sizes, as symbols: there only a branch is odd, and lost state."""
    return suspect.what in (("branch", "state") if passed else ("branch", "number", "state"))


def _fix(suspect: Suspect) -> str:
    if suspect.what == "state":
        return "keep it in a registered buffer that is written in place, or outside forward"
    return "torch.where(condition, a, b), torch.cond, or a value that is an input of forward"
