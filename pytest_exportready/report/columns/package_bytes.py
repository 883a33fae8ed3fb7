"""Bytes of the AOTInductor package."""

from __future__ import annotations

from pytest_exportready.case.facts import BYTES
from pytest_exportready.report.columns._column import Column, fact

COLUMN = Column("AOTInductor package", "size", "bytes", lambda result: fact(result, BYTES, "aotinductor"))
