"""Control flow or a size depends on tensor values, which are not known while the graph is made.

Both ways of a branch would have to be kept. Bad: ``if x.sum() > 0: y = a else: y = b``. Good:
``y = torch.where(x.sum() > 0, a, b)``, ``torch.cond``, or for a size ``torch._check(n >= 0)``.
"""

from __future__ import annotations

import re

from pytest_exportready.diagnose import Diagnosis, Failure
from pytest_exportready.diagnosis._draft import elsewhere, met_on_the_way
from pytest_exportready.finding import Finding, Rule

RULE = Rule("ER401", "no_data_dependent_branch", __doc__ or "")

_SIGNS = re.compile(
    r"GuardOnDataDependentSymNode|[Dd]ata-?\s?dependent (?:branching|expression|jump|operator|assertion)"
    r"|Could not guard on data-dependent|Could not extract specialized integer"
    r"|DataDependentOutputException|dynamic control flow is not supported|PendingUnbackedSymbolNotFound"
    r"|calling \.item\(\) on a Tensor|unhashable type: non-nested Sym"
    r"|must be tuple of ints, ?but got|data-dependent control flow"
)
_NUMBER = re.compile(r"unhashable type|must be tuple of ints|Could not extract specialized integer|\.item\(\)")
_OPERATOR = re.compile(r"DataDependentOutputException: (aten\.\w+)|Data dependent operator[^\0]*?(aten\.\w+)")


def explain(failure: Failure) -> Finding | None:
    if not failure.says(_SIGNS):
        return None
    words = next((f": {s.words}" for s in failure.suspects if (s.file, s.line) == failure.place), "")
    operator = failure.says(_OPERATOR)
    if operator and "local_scalar" not in operator[0]:
        what = f"{operator[1] or operator[2]} gives a Python answer that only tensor values tell, and forward uses it"
        return failure.finding(
            RULE, "", what + words, "compare with torch operators: torch.where((a == b).all(), y, z)"
        )
    if failure.says(_NUMBER):
        what = "forward takes a Python number (a size, a count, an index) from tensor values"
        fix = "keep it a tensor (index_select, a mask as a weight), make it an input, or torch._check its range"
        return failure.finding(RULE, "", what + words, fix)
    others = elsewhere(met_on_the_way(failure, "DATA_DEPENDENT_ERROR"), *failure.place)
    return failure.finding(
        RULE,
        "",
        f"forward branches on tensor values, or takes a Python number from them{words}{others}",
        "use torch.where or torch.cond for the branch, or a mask as a weight instead of selecting rows",
    )


DIAGNOSIS = Diagnosis(RULE, explain)
