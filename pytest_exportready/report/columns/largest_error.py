"""The largest absolute difference from the eager module in any stage."""

from __future__ import annotations

from pytest_exportready.case.facts import LARGEST
from pytest_exportready.report.columns._column import Column, fact

COLUMN = Column("largest error", "accuracy", "error", lambda result: fact(result, LARGEST))
