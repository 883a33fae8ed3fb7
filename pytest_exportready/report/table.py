"""A tab of the HTML page with rows of figures, shown only if there is data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from pytest_exportready.case.sanitize import exception_text
from pytest_exportready.discover import discover
from pytest_exportready.report.column import Column, all_columns, figure_of
from pytest_exportready.report.run import Run, TestResult
from pytest_exportready.report.units import figure

ROWS = 50
"""The most rows of a tab: those with the largest figures."""


@dataclass(frozen=True)
class GridCell:
    """One cell of a grid."""

    text: str
    share: float | None = None  # of the largest figure of its column, 0 to 1, drawn as a bar
    anchor: str = ""  # of the case that it links to


@dataclass(frozen=True)
class Grid:
    """The rows of a tab."""

    headings: tuple[str, ...]
    rows: tuple[tuple[GridCell, ...], ...]
    note: str = ""  # a sentence below the rows


@dataclass(frozen=True)
class PageTable:
    """A tab."""

    title: str
    grid: Callable[[Run], Grid | None]  # None if the run has no such data


@cache
def all_tables() -> dict[str, PageTable]:
    """Return every table by name, sorted."""
    from pytest_exportready.report import tables

    return discover(tables, "TABLE", PageTable)


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


def bar(value: float, largest: float, text: str) -> GridCell:
    return GridCell(text, max(value, 0) / largest if largest > 0 else 0)


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
