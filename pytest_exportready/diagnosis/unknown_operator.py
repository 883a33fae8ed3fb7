"""``forward`` calls an operator that is not loaded in this process.

Good: import the package that registers it, or ``torch.ops.load_library(path)``, before the export.
"""

from __future__ import annotations

import re

from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER419", "operators_are_loaded", __doc__ or "")

_SIGNS = re.compile(
    r"'_OpNamespace' '(\w+)' object has no attribute '(\w+)'|[Cc]ould not find (?:schema|the operator) (?:for )?"
    r"([\w:.]+)"
    r"|[Nn]o such operator ([\w:]+)|_OpNamespace"
)


def explain(failure: Failure) -> Finding | None:
    found = failure.says(_SIGNS)
    if found is None:
        return None
    operator = f"{found[1]}::{found[2]}" if found[1] else found[3] or found[4] or "the operator"
    return failure.finding(
        RULE,
        operator,
        f"{operator} is not registered in this process",
        "import the package that registers it (or torch.ops.load_library) before the export",
    )


DIAGNOSIS = Diagnosis(RULE, explain)
