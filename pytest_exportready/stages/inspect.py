"""Run the checks on the trained module."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_exportready.analysis.execution.trial import Observation, Trial
from pytest_exportready.checks import all_checks
from pytest_exportready.checks._check import Subject
from pytest_exportready.checks._inspection import ChecksCrashed, inspect_module
from pytest_exportready.stages._stage import Stage, StageInfrastructure


def run(trial: Trial) -> Iterator[Observation]:
    subject = Subject.of(trial.case, trial.options)
    try:
        trial.reference.try_on_host([trial.call])
    except Exception:  # the stage eager reports it
        subject = replace(subject, args=(), kwargs={})
    try:
        yield from inspect_module(all_checks(), subject)
    except ChecksCrashed as crashes:
        raise StageInfrastructure(str(crashes)) from crashes


STAGE = Stage(run, rules=(), follows=("train",), every_mode=False, every_rank=True, always=True)
