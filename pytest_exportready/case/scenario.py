"""What a Scenario is: a way of training a case before it is exported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from pytest_exportready.case.explained import ExplainedError
from pytest_exportready.case.export_case import ExportCase
from pytest_exportready.discover import discover


class CannotTrain(ExplainedError):
    """The scenario could not train this case; the fix says what would make it possible.

    follows: another rank failed before, and this one only noticed.
    """

    def __init__(self, problem: str, fix: str = "", *, follows: bool = False) -> None:
        super().__init__(problem, fix)
        self.follows = follows


@dataclass(frozen=True)
class Scenario:
    """A training scenario, in a module named after it.

    train: trains ``case.model`` in place and leaves every module in the mode it was given in, no gradients behind.
    Returns what was done, as facts for the report. Raises CannotTrain.
    ranks: in how many ranks the case is built, trained and judged; with more than one, each is in their default
    process group when ``train`` is called.
    """

    train: Callable[[ExportCase], dict[str, object]]
    ranks: int = 1


@cache
def all_scenarios() -> dict[str, Scenario]:
    """Every scenario by name, sorted."""
    from exportready_fixtures import scenarios

    return discover(scenarios, "SCENARIO", Scenario)
