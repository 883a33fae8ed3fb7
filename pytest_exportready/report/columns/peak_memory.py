"""The peak main memory of the case, beyond what its process used before."""

from __future__ import annotations

from pytest_exportready.report.columns._column import Column
from pytest_exportready.report.run import TestResult


def value(result: TestResult) -> float | None:
    mib = result.readiness.peak_mib if result.readiness else 0.0
    return mib * 2**20 if mib else None


COLUMN = Column("peak memory", "memory", "bytes", value)
