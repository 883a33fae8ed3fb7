"""Run one stage, or build the trial that one needs, without the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch.export import ExportedProgram

from pytest_exportready.analysis.execution.trial import Exported, Facts, Observation, Trial
from pytest_exportready.case.finding import Finding
from pytest_exportready.case.readiness import StageResult

_NAME = "the stage"


def trial_of(program: ExportedProgram, case: Any, options: Any, mode: Any = "non-strict", **fields: Any) -> Trial:
    """Return a trial whose export gave ``program``."""
    return Trial(case, options, mode, exported=Exported(program), **fields)


def run_stage(run: Callable[[Trial], Iterable[Observation]], trial: Trial) -> list[Finding]:
    """Return the findings of a stage; what it exports and measures is then on the trial."""
    findings: list[Finding] = []
    facts = Facts()
    trial.results[_NAME] = StageResult(_NAME, "passed", facts=facts)
    for seen in run(trial):
        if isinstance(seen, Finding):
            findings.append(seen)
        elif isinstance(seen, Exported):
            trial.exported = seen
        elif isinstance(seen, dict):
            facts |= seen
    return findings


def facts_of(trial: Trial) -> Facts:
    """Return what the stage that ran last measured."""
    return trial.results[_NAME].facts
