"""The tabs of the HTML page, one file each, which ends in ``TABLE = PageTable(...)``."""

from __future__ import annotations

import sys
from functools import cache

from pytest_exportready.discover import discover
from pytest_exportready.report.tables._table import PageTable


@cache
def all_tables() -> dict[str, PageTable]:
    """Return every table by name, sorted."""
    return discover(sys.modules[__name__], "TABLE", PageTable)
