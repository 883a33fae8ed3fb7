"""Bytes of the file that torch.export.save wrote."""

from __future__ import annotations

from pytest_exportready.case.facts import BYTES
from pytest_exportready.report.columns._column import Column, fact

COLUMN = Column("saved program", "size", "bytes", lambda result: fact(result, BYTES, "reload"))
