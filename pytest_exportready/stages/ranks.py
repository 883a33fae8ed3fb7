"""Compare the state and the outputs of the ranks, if torch.distributed has several."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_exportready.analysis.execution.trial import Observation, Trial
from pytest_exportready.analysis.ranks.check_ranks import NotTogether, disagreements, several_ranks
from pytest_exportready.analysis.ranks.rules import RULES
from pytest_exportready.stages._stage import SkipStage, Stage


def run(trial: Trial) -> Iterator[Observation]:
    try:
        yield from disagreements(trial.case, trial.tolerance, trial.rank_timeout)
    except NotTogether as reason:
        raise SkipStage(str(reason)) from reason


STAGE = Stage(
    run,
    rules=tuple(RULES),
    follows=("inspect",),
    every_mode=False,
    every_rank=True,
    always=True,
    asked=lambda trial: bool(trial.rank_timeout) and several_ranks(),
)
