"""How long a case took, setup and teardown included."""

from __future__ import annotations

from pytest_exportready.report.column import Column

COLUMN = Column("whole case", "timing", "seconds", lambda result: result.seconds)
