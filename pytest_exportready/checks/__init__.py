"""One check per file: a property that a trained module must have. CONTRIBUTING.md says how to add one."""

from __future__ import annotations

import sys
from functools import cache

from pytest_exportready.checks._check import Check
from pytest_exportready.checks._inspection import by_requirement
from pytest_exportready.discover import discover


@cache
def all_checks() -> dict[str, Check]:
    """Return every check by name, each after those that it requires."""
    return by_requirement(discover(sys.modules[__name__], "CHECK", Check))
