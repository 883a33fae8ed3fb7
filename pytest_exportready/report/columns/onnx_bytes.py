"""Bytes of the ONNX model with its weights."""

from __future__ import annotations

from pytest_exportready.case.facts import BYTES
from pytest_exportready.report.columns._column import Column, fact

COLUMN = Column("ONNX model", "size", "bytes", lambda result: fact(result, BYTES, "onnx"))
