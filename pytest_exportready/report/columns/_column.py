"""A column of the HTML page: one figure of each case, such as the nodes of its graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest_exportready.report.run import TestResult
from pytest_exportready.report.units import Unit


@dataclass(frozen=True)
class Column:
    """A column of a tab; the tab is shown when at least one case has a figure."""

    title: str  # its heading
    tab: str  # such as timing or size
    unit: Unit
    value: Callable[[TestResult], float | None]  # None for a case without a figure; may raise


def fact(result: TestResult, name: str, *stages: str) -> float | None:
    """Return the largest number called ``name`` among the facts of ``stages``, or of all stages if none is given."""
    found = [
        stage.facts[name]
        for stage in (result.readiness.stages if result.readiness else ())
        if name in stage.facts and (not stages or stage.name in stages)
    ]
    numbers = [one for one in found if isinstance(one, (int, float)) and not isinstance(one, bool)]
    return max(numbers, default=None)
