"""Control flow or a size depends on tensor values, which are not known while the graph is made.

Both ways of a branch would have to be kept. Bad: ``if x.sum() > 0: y = a else: y = b``. Good:
``y = torch.where(x.sum() > 0, a, b)``, ``torch.cond``, or for a size ``torch._check(n >= 0)``.
"""

from __future__ import annotations

import re

from pytest_exportready.diagnose import Diagnosis, Failure
from pytest_exportready.finding import Finding, Rule

RULE = Rule("ER401", "no_data_dependent_branch", __doc__ or "")

_SIGNS = re.compile(
    r"GuardOnDataDependentSymNode|[Dd]ata-dependent (branching|expression|jump)"
    r"|Could not guard on data-dependent|Could not extract specialized integer"
    r"|DataDependentOutputException|dynamic control flow is not supported"
)


def explain(failure: Failure) -> Finding | None:
    if not _SIGNS.search(failure.text):
        return None
    return failure.finding(
        RULE,
        "",
        "forward branches on tensor values, or takes a Python number from them",
        "use torch.where or torch.cond for the branch, or a mask as a weight instead of selecting rows",
    )


DIAGNOSIS = Diagnosis(RULE, explain)
