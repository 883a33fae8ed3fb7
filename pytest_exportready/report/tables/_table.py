"""A tab of the HTML page with rows of figures, shown only if there is data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest_exportready.report.run import Run


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


def bar(value: float, largest: float, text: str) -> GridCell:
    return GridCell(text, max(value, 0) / largest if largest > 0 else 0)
