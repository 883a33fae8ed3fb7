"""The peak memory that torch took from one GPU for the case."""

from __future__ import annotations

from pytest_exportready.report.columns._column import Column
from pytest_exportready.report.run import TestResult


def value(result: TestResult) -> float | None:
    mib = result.readiness.peak_gpu_reserved_mib if result.readiness else 0.0
    return mib * 2**20 if mib else None


COLUMN = Column("GPU memory reserved", "memory", "bytes", value)
