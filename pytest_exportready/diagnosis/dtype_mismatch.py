"""Tensors of two dtypes meet in an operator that wants one.

Bad: a half weight with a float input. Good: ``x.to(self.weight.dtype)`` once, at the entry.
"""

from __future__ import annotations

import re

from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER416", "one_dtype", __doc__ or "")

_SIGNS = re.compile(
    r"[Ss]ame d?type|[Dd]types must be the same|expected scalar type [\w.]+ but found|expected dtype [\w.]+ for"
    r"|Expected self\.dtype|input dtype \([\w.]+\) does not match|Input type \(.*\) and (?:weight|bias) type"
    r"|could not infer output dtype|Unsupported dtype|Autograd not support dtype"
)
_INDEX = re.compile(r"following scalar types: Long|Expected dtype int32/int64 for index|used as indices must be")


def explain(failure: Failure) -> Finding | None:
    if failure.says(_INDEX):
        return failure.finding(RULE, "", "indices are no integers", "ids.long(), or example inputs of dtype torch.long")
    if not failure.says(_SIGNS):
        return None
    return failure.finding(
        RULE,
        "",
        "tensors of two dtypes meet in one operator, or of one that it has not",
        "cast once, at the entry: x = x.to(self.weight.dtype), or model.float() before the export",
    )


DIAGNOSIS = Diagnosis(RULE, explain)
