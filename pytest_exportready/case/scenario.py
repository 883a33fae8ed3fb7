"""Scenario: how a case is trained before it is exported. Packages declare theirs as entry points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from pytest_exportready.case.explained import ExplainedError
from pytest_exportready.case.export_case import ExportCase
from pytest_exportready.case.sanitize import exception_text

ENTRY_POINTS = "exportready.scenarios"
"""The entry-point group of scenarios: the name is the scenario's, the value names its Scenario object."""

_REINSTALL = "Install the package that declares it; reinstall pytest-exportready if it is a scenario of its own."


class ScenarioError(Exception):
    """A scenario is missing, ambiguous or broken.

    problem: names the entry point. fix: what to do, in the imperative.
    """

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(f"{problem}. Fix: {fix}")
        self.problem = problem
        self.fix = fix


class CannotTrain(ExplainedError):
    """The scenario could not train this case; the fix says what would make it possible.

    follows: another rank failed before, and this one only noticed.
    """

    def __init__(self, problem: str, fix: str = "", *, follows: bool = False) -> None:
        super().__init__(problem, fix)
        self.follows = follows


@dataclass(frozen=True)
class Scenario:
    """A training scenario.

    train: trains ``case.model`` in place and leaves every module in the mode it was given in, no gradients behind.
    Returns what was done, as facts for the report. Raises CannotTrain.
    ranks: in how many ranks the case is built, trained and judged; with more than one, each is in their default
    process group when ``train`` is called.
    """

    train: Callable[[ExportCase], dict[str, object]]
    ranks: int = 1


@cache
def scenario_names() -> tuple[str, ...]:
    """Return the names of all installed scenarios, sorted, without importing any."""
    return tuple(sorted(_entry_points()))


@cache
def find_scenario(name: str) -> Scenario:
    """Return the scenario that the entry point ``name`` loads.

    Raises:
        ScenarioError: there is none, there are several, or it cannot be loaded. The message names the entry point.
    """
    found = _entry_points().get(name, ())
    if not found:
        raise ScenarioError(f"no entry point of the group {ENTRY_POINTS} has the name {name!r}", _REINSTALL)
    if len(found) > 1:
        several = " and ".join(_described(one) for one in found)
        raise ScenarioError(f"several scenarios have the name {name!r}: {several}", "Rename or uninstall one of them.")
    (point,) = found
    try:
        scenario = point.load()
    except Exception as error:
        problem = f"{_described(point)} cannot be loaded: {exception_text(error)}"
        raise ScenarioError(problem, "Repair or uninstall the package that declares it.") from error
    if not isinstance(scenario, Scenario):
        problem = f"{_described(point)} is a {type(scenario).__name__}, not a Scenario"
        raise ScenarioError(problem, "Let the entry point name a `pytest_exportready.Scenario`.")
    return scenario


@cache
def _entry_points() -> dict[str, tuple[EntryPoint, ...]]:
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for point in entry_points(group=ENTRY_POINTS):
        found[point.name] = (*found.get(point.name, ()), point)
    return found


def _described(point: EntryPoint) -> str:
    package = f" of {point.dist.name}" if point.dist is not None else ""
    return f"the entry point {point.name} = {point.value!r} (group {ENTRY_POINTS}){package}"
