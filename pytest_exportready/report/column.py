"""A column of the HTML page: one figure of each case, such as the nodes of its graph."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points

from pytest_exportready.discover import discover
from pytest_exportready.report.run import TestResult
from pytest_exportready.report.units import Unit

ENTRY_POINTS = "exportready.columns"
"""The entry-point group through which another package adds columns; each entry point names a Column."""


@dataclass(frozen=True)
class Column:
    """A column of a tab; the tab is shown when at least one case has a figure."""

    title: str  # its heading
    tab: str  # such as timing or size
    unit: Unit
    value: Callable[[TestResult], float | None]  # None for a case without a figure; may raise


@cache
def all_columns() -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """Return every column, ours and then those of other packages, and the problems of those that cannot be used."""
    from pytest_exportready.report import columns

    found = list(discover(columns, "COLUMN", Column).values())
    troubles: list[str] = []
    for entry_point in sorted(entry_points(group=ENTRY_POINTS), key=lambda one: one.name):
        try:
            column = entry_point.load()
        except Exception as error:
            troubles.append(f"column {entry_point.name} ({entry_point.value}): {type(error).__name__}: {error}")
            continue
        if isinstance(column, Column):
            found.append(column)
        else:
            troubles.append(
                f"column {entry_point.name} ({entry_point.value}): is a {type(column).__name__}, not a Column"
            )
    return tuple(found), tuple(troubles)


def figure_of(column: Column, result: TestResult) -> float | None:
    """Return the finite figure of one case, or None.

    Raises:
        ValueError: The value is not a number.
    """
    value = column.value(result)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"is a {type(value).__name__}, not a number")
    return float(value) if math.isfinite(value) else None


def fact(result: TestResult, name: str, *stages: str) -> float | None:
    """Return the largest number called ``name`` among the facts of ``stages``, or of all stages if none is given."""
    found = [
        stage.facts[name]
        for stage in (result.readiness.stages if result.readiness else ())
        if name in stage.facts and (not stages or stage.name in stages)
    ]
    numbers = [one for one in found if isinstance(one, (int, float)) and not isinstance(one, bool)]
    return max(numbers, default=None)
