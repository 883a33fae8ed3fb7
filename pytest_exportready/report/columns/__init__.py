"""The columns of the HTML page, one file each, which ends in ``COLUMN = Column(...)``."""

from __future__ import annotations

import sys
from functools import cache
from importlib.metadata import entry_points

from pytest_exportready.discover import discover
from pytest_exportready.report.columns._column import Column

__all__ = ["ENTRY_POINTS", "Column", "all_columns"]

ENTRY_POINTS = "exportready.columns"
"""The entry-point group through which another package adds columns; each entry point names a Column."""


@cache
def all_columns() -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """Return every column, ours and then those of other packages, and the problems of those that cannot be used."""
    found = list(discover(sys.modules[__name__], "COLUMN", Column).values())
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
