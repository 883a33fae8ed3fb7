"""Train the case under its scenario."""

from __future__ import annotations

from collections.abc import Iterator

from torch import distributed

from pytest_exportready.analysis.execution.trial import Observation, Trial
from pytest_exportready.case.finding import Rule
from pytest_exportready.case.scenario import CannotTrain, ScenarioError, find_scenario
from pytest_exportready.stages._stage import Stage, StageInfrastructure

TRAINS = Rule(
    "ER103",
    "case_trains",
    "The scenario could not train the case. By default the case is then judged as it was returned, and this is a "
    "warning; a scenario asked for by name has to train it.",
)


def run(trial: Trial) -> Iterator[Observation]:
    name = trial.scenario
    try:
        scenario = find_scenario(name)
    except ScenarioError as error:
        raise StageInfrastructure(str(error)) from error
    if scenario.ranks > 1 and not (distributed.is_available() and distributed.is_initialized()):
        problem = f"scenario {name} needs {scenario.ranks} ranks, and there is one"
        raise StageInfrastructure(problem, "do not switch the plugin exportready-world off")
    try:
        yield scenario.train(trial.case)
    except CannotTrain as error:
        if error.follows:
            raise StageInfrastructure(str(error)) from error
        report = TRAINS.error if trial.required else TRAINS.warning
        yield report("", f"scenario {name} could not train the case: {error.problem}", error.fix)


STAGE = Stage(run, rules=(TRAINS,), every_mode=False, every_rank=True, always=True)
