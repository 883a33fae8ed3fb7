"""Nodes of the exported graph."""

from __future__ import annotations

from pytest_exportready.case.facts import NODES
from pytest_exportready.report.columns._column import Column, fact

COLUMN = Column("nodes", "size", "count", lambda result: fact(result, NODES, "export"))
