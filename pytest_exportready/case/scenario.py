"""Define a Scenario: how a case is trained before it is exported. Packages declare theirs as entry points."""

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


class ScenarioError(ExplainedError):
    """A scenario is missing, ambiguous or broken; the problem names the entry point."""


class CannotTrain(ExplainedError):
    """The scenario could not train this case; the fix says what would make it possible.

    Args:
        follows: Whether another rank failed first, and this one only noticed.
    """

    def __init__(self, problem: str, fix: str = "", *, follows: bool = False) -> None:
        super().__init__(problem, fix)
        self.follows = follows


@dataclass(frozen=True)
class Scenario:
    """A training scenario."""

    train: Callable[[ExportCase], dict[str, object]]
    """Train ``case.model`` in place and return facts for the report, or raise CannotTrain. Every module keeps its mode,
    and no gradients are left."""
    ranks: int = 1
    """In how many ranks the case is built, trained and checked. If there are several, each is in their default process
    group when ``train`` is called."""


@cache
def scenario_names() -> tuple[str, ...]:
    """Return the names of all installed scenarios, sorted, without importing any."""
    return tuple(sorted(_entry_points()))


@cache
def find_scenario(name: str) -> Scenario:
    """Return the scenario that the entry point ``name`` loads.

    Raises:
        ScenarioError: There is none, there are several, or it cannot be loaded.
    """
    found = _entry_points().get(name, ())
    if not found:
        raise ScenarioError(f"No entry point in the group {ENTRY_POINTS} has the name {name!r}", _REINSTALL)
    if len(found) > 1:
        several = " and ".join(_described(one) for one in found)
        raise ScenarioError(f"Several scenarios have the name {name!r}: {several}", "Rename or uninstall one of them.")
    (point,) = found
    try:
        scenario = point.load()
    except Exception as error:
        problem = f"The {_described(point)} cannot be loaded: {exception_text(error)}"
        raise ScenarioError(problem, "Fix or uninstall the package that declares it.") from error
    if not isinstance(scenario, Scenario):
        problem = f"The {_described(point)} is a {type(scenario).__name__}, not a Scenario"
        raise ScenarioError(problem, "Let the entry point refer to a `pytest_exportready.Scenario`.")
    return scenario


@cache
def _entry_points() -> dict[str, tuple[EntryPoint, ...]]:
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for point in entry_points(group=ENTRY_POINTS):
        found[point.name] = (*found.get(point.name, ()), point)
    return found


def _described(point: EntryPoint) -> str:
    package = f" of {point.dist.name}" if point.dist is not None else ""
    return f"entry point {point.name} = {point.value!r} (group {ENTRY_POINTS}){package}"
