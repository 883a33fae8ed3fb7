"""The duration of a case, including setup and teardown."""

from __future__ import annotations

from pytest_exportready.report.columns._column import Column

COLUMN = Column("whole case", "timing", "seconds", lambda result: result.seconds)
