"""What a Table of the page is: a tab with rows of figures, there only when there is something to show."""

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
"""Rows of a tab: those with the largest figures."""


@dataclass(frozen=True)
class Cell:
    """share: of the largest figure of its column, 0 to 1, drawn as a bar. anchor: the case that it links to."""

    text: str
    share: float | None = None
    anchor: str = ""


@dataclass(frozen=True)
class Grid:
    """note: what a reader should know, in a sentence."""

    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class Table:
    """title: of the tab. grid: what it shows; None when the run has no such data; it may raise."""

    title: str
    grid: Callable[[Run], Grid | None]


@cache
def all_tables() -> dict[str, Table]:
    """Every table by name, sorted."""
    from pytest_exportready.report import tables

    return discover(tables, "TABLE", Table)


def tabs(run: Run) -> tuple[dict[str, Grid], list[str]]:
    """The tabs that have data by title, and what could not be shown: columns of other packages may be broken."""
    columns, troubles = all_columns()
    told = list(troubles)
    by_tab: dict[str, list[tuple[Column, dict[str, float]]]] = {}
    for column in columns:
        try:
            figures = {result.nodeid: figure_of(column, result) for result in run.results}
        except Exception as error:
            told.append(f"column {column.title!r}: {exception_text(error)}")
            continue
        there = {nodeid: value for nodeid, value in figures.items() if value is not None}
        if there:
            by_tab.setdefault(column.tab, []).append((column, there))
    found = {title: _of_columns(run, those) for title, those in sorted(by_tab.items())}
    for table in all_tables().values():
        grid = table.grid(run)
        if grid is not None and grid.rows:
            found[table.title] = grid
    return found, told


def bar(value: float, largest: float, text: str) -> Cell:
    return Cell(text, max(value, 0) / largest if largest > 0 else 0)


def _of_columns(run: Run, columns: list[tuple[Column, dict[str, float]]]) -> Grid:
    """Cases with the largest figure of the first column first."""
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
) -> Iterator[Cell]:
    yield Cell(run.labels[result.nodeid], anchor=result.anchor)
    for (column, figures), most in zip(columns, largest, strict=True):
        value = figures.get(result.nodeid)
        yield Cell("") if value is None else bar(value, most, figure(value, column.unit))
