"""The tabs of the HTML page: the columns with figures, by tab, and the tables with rows."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pytest_exportready.case.sanitize import exception_text
from pytest_exportready.report.columns import Column, all_columns
from pytest_exportready.report.run import Run, TestResult
from pytest_exportready.report.tables import all_tables
from pytest_exportready.report.tables._table import Grid, GridCell, bar
from pytest_exportready.report.units import figure

ROWS = 50
"""The most rows of a tab: those with the largest figures."""


def tabs(run: Run) -> tuple[dict[str, Grid], list[str]]:
    """Return the tabs with data by title, and the problems of columns that cannot be shown."""
    columns, unusable = all_columns()
    problems = list(unusable)
    by_tab: dict[str, list[tuple[Column, dict[str, float]]]] = {}
    for column in columns:
        try:
            figures = {result.nodeid: figure_of(column, result) for result in run.results}
        except Exception as error:
            problems.append(f"column {column.title!r}: {exception_text(error)}")
            continue
        there = {nodeid: value for nodeid, value in figures.items() if value is not None}
        if there:
            by_tab.setdefault(column.tab, []).append((column, there))
    found = {title: _of_columns(run, those) for title, those in sorted(by_tab.items())}
    for table in all_tables().values():
        grid = table.grid(run)
        if grid is not None and grid.rows:
            found[table.title] = grid
    return found, problems


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


def _of_columns(run: Run, columns: list[tuple[Column, dict[str, float]]]) -> Grid:
    """Return the cases, the largest figure of the first column first."""
    columns = sorted(columns, key=lambda one: -len(one[1]))
    _, first = columns[0]
    having = [result for result in run.results if any(result.nodeid in figures for _, figures in columns)]
    having.sort(key=lambda result: -first.get(result.nodeid, float("-inf")))
    largest = [max(figures.values()) for _, figures in columns]
    rows = tuple(tuple(_cells(run, result, columns, largest)) for result in having[:ROWS])
    note = f"The {ROWS} largest of {len(having):,}." if len(having) > ROWS else ""
    return Grid(("case", *(column.title for column, _ in columns)), rows, note)


def _cells(
    run: Run, result: TestResult, columns: list[tuple[Column, dict[str, float]]], largest: list[float]
) -> Iterator[GridCell]:
    yield GridCell(run.labels[result.nodeid], anchor=result.anchor)
    for (column, figures), most in zip(columns, largest, strict=True):
        value = figures.get(result.nodeid)
        yield GridCell("") if value is None else bar(value, most, figure(value, column.unit))
