"""The Python source of forward and what it calls, held against what the export said of it."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_exportready.failure import user_place
from pytest_exportready.finding import Finding, Rule
from pytest_exportready.module.wrappers import unwrap
from pytest_exportready.source.suspects import Suspect, suspects
from pytest_exportready.stage import SkipStage, Stage, Trial

RULE = Rule(
    "ER130",
    "source_follows_no_values",
    "A line of forward, or of what it calls, branches on tensor values, takes Python numbers from them, or writes state"
    " that outlives the call. Found in the source, without running it, so that it is told only: whether it is a fault, "
    "the export and the stages after it decide. Where the export failed these are the other such lines; "
    "where it passed, a branch on values is odd and should be covered by more_inputs.",
)
MOST = 8


def run(trial: Trial) -> Iterator[Finding]:
    if trial.truth.error is not None:
        raise SkipStage("the trained module itself does not run")
    if trial.mode != trial.options.modes[0]:
        raise SkipStage("the same source in every mode")
    passed = trial.program is not None
    case = trial.case
    told = user_place(trial.error) if trial.error is not None else ("", 0)
    every = suspects(unwrap(case.model)[0], case.args, case.kwargs)
    found = [s for s in every if s.sure and _tells(s, passed) and (s.file, s.line) != told]
    trial.facts["lines"] = len(found)
    for suspect in found[:MOST]:
        verdict = "the export passed all the same" if passed else "the export failed"
        yield RULE.info("", f"{suspect.words}; {verdict}", _fix(suspect), file=suspect.file, line=suspect.line)


def _tells(suspect: Suspect, passed: bool) -> bool:
    """A program keeps numbers taken from tensors, and sizes, as symbols: there only a branch is odd, and lost state."""
    return suspect.what in (("branch", "state") if passed else ("branch", "number", "state"))


def _fix(suspect: Suspect) -> str:
    if suspect.what == "state":
        return "keep it in a registered buffer that is written in place, or outside forward"
    return "torch.where(condition, a, b), torch.cond, or a value that is an input of forward"


STAGE = Stage(run, rules=(RULE,))
