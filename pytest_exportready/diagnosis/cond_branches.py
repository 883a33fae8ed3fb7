"""``torch.cond``, ``map`` or ``scan`` was given functions that do not fit: results of other shapes, or side effects.

Good: both branches take the same tensors as operands and return new tensors of one shape and dtype.
"""

from __future__ import annotations

import re

from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER423", "cond_branches_agree", __doc__ or "")

_SIGNS = re.compile(
    r"true_fn and false_fn|Expect(?:ed)? (?:both )?branches|UncapturedHigherOrderOpError"
    r"|combine_fn|while_loop's"
)


def explain(failure: Failure) -> Finding | None:
    if not (failure.says(_SIGNS) or failure.comes_through("_higher_order_ops/cond.py")):
        return None
    return failure.finding(
        RULE,
        "",
        "torch.cond (or map, scan, while_loop) was given functions that cannot be put into a graph",
        "return new tensors of one shape and dtype from both branches (x.clone(), not x), pass tensors as operands,"
        " write nothing outside",
    )


DIAGNOSIS = Diagnosis(RULE, explain)
