"""Tensors of two dtypes meet in an operator that wants one.

Bad: a half weight with a float input. Good: ``x.to(self.weight.dtype)`` once, at the entry.
"""

from __future__ import annotations

import re

from pytest_exportready.diagnose import Diagnosis, Failure
from pytest_exportready.finding import Finding, Rule

RULE = Rule("ER416", "one_dtype", __doc__ or "")

_SIGNS = re.compile(
    r"must have the same dtype|expected scalar type \w+ but found|to have the same dtype"
    r"|Input type \(.*\) and (?:weight|bias) type|mat1 and mat2 .*dtype|self and mat2 .*dtype"
)


def explain(failure: Failure) -> Finding | None:
    if not failure.says(_SIGNS):
        return None
    return failure.finding(
        RULE,
        "",
        "tensors of two dtypes meet in one operator",
        "cast once, at the entry: x = x.to(self.weight.dtype), or model.float() before the export",
    )


DIAGNOSIS = Diagnosis(RULE, explain)
