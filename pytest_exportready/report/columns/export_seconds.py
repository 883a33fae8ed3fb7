"""The duration of torch.export itself."""

from __future__ import annotations

from pytest_exportready.case.facts import SECONDS
from pytest_exportready.report.columns._column import Column, fact

COLUMN = Column("torch.export", "timing", "seconds", lambda result: fact(result, SECONDS, "export"))
