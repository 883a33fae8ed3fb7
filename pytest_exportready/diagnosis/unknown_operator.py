"""Every operator that `forward` calls is registered in the process that exports.

Why it matters:
    A custom operator is registered by an import or by `torch.ops.load_library(path)`, which other processes must
    repeat.

Example:
    class Net(nn.Module):
        def forward(self, x):
            return torch.ops.nowhere.double(x) if torch.compiler.is_exporting() else x * 2

    export_ready_check(Net().eval(), (torch.randn(2, 4),))

Instead:
    class Net(nn.Module):
        def forward(self, x):
            return torch.ops.aten.mul(x, 2)

    export_ready_check(Net().eval(), (torch.randn(2, 4),))

Severity:
    error: the export fails.
"""

from __future__ import annotations

from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER419", "operators_are_loaded", __doc__ or "")

_SIGNS = (
    r"'_OpNamespace' '(\w+)' object has no attribute '(\w+)'|[Cc]ould not find (?:schema|the operator) (?:for )?"
    r"([\w:.]+)"
    r"|[Nn]o such operator ([\w:]+)|_OpNamespace"
)


def explain(failure: Failure) -> Finding | None:
    found = failure.says(_SIGNS)
    if found is None:
        return None
    operator = "::".join(filter(None, found.groups()))
    return failure.finding(
        RULE,
        f"`{operator}` is not registered in this process." if operator else "An operator is not registered.",
        "Import the package that registers it, or call `torch.ops.load_library(path)`, before exporting.",
        where=operator,
    )


DIAGNOSIS = Diagnosis(RULE, explain)
