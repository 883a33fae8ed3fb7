"""Train the case under its scenario."""

from __future__ import annotations

from collections.abc import Iterator

from torch import distributed

from pytest_exportready.analysis.execution.eager_reference import EagerReference
from pytest_exportready.analysis.execution.trial import Observation, Trial
from pytest_exportready.case.finding import Rule
from pytest_exportready.case.sanitize import exception_text
from pytest_exportready.case.scenario import CannotTrain, ScenarioError, find_scenario
from pytest_exportready.stages._stage import Stage, StageInfrastructure

TRAINS = Rule(
    "ER103",
    "case_trains",
    """The scenario can train the case.

    Why it matters:
        A case that is not trained is checked as it was returned: faults that training causes are not found.

    Severity:
        error: a scenario that was selected by name cannot train the case.
        warning: a scenario that is used by default cannot train it.
    """,
)


def run(trial: Trial) -> Iterator[Observation]:
    name = trial.scenario
    try:
        scenario = find_scenario(name)
    except ScenarioError as error:
        raise StageInfrastructure(error.problem, error.fix) from error
    if scenario.ranks > 1 and not (distributed.is_available() and distributed.is_initialized()):
        problem = f"the scenario {name} needs {scenario.ranks} ranks, and there is one"
        raise StageInfrastructure(problem, "Do not disable the plugin exportready-world.")
    report = TRAINS.error if trial.required else TRAINS.warning
    try:
        EagerReference(trial.case.model).try_on_host([trial.call])
    except Exception as error:  # the stage eager reports it, too
        problem = f"The scenario {name} does not train the case: the forward pass raises {exception_text(error)}."
        yield report("", problem, "Correct the example inputs or the module.")
        return
    try:
        yield scenario.train(trial.case)
    except CannotTrain as error:
        if error.follows:
            raise StageInfrastructure(error.problem, error.fix) from error
        yield report("", f"The scenario {name} cannot train the case: {error.problem.removesuffix('.')}.", error.fix)


STAGE = Stage(run, rules=(TRAINS,), every_mode=False, every_rank=True, always=True)
