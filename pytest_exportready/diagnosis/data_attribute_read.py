"""`forward`, and each `autograd.Function` that it calls, does not read `.data` of a tensor.

Why it matters:
    Operations on `.data` are not traced. The trace takes the result for a constant without values.

Example:
    class Net(nn.Linear):
        def forward(self, x):
            return super().forward(x).data * 2

    export_ready_check(Net(4, 4).eval(), (torch.randn(2, 4),))

Instead:
    class Net(nn.Linear):
        def forward(self, x):
            return super().forward(x).detach() * 2

    export_ready_check(Net(4, 4).eval(), (torch.randn(2, 4),))

Severity:
    error: the export fails.
"""

from __future__ import annotations

from pytest_exportready.analysis.source.autograd_functions import lines_reading
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import few
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER428", "no_data_attribute", __doc__ or "")


def explain(failure: Failure) -> Finding | None:
    state_written = any(suspect.what == "state" for suspect in failure.suspects)
    if state_written or not failure.says("found a fake tensor in the exported program constant"):
        return None
    lines = lines_reading(failure.module, "data")
    if not lines:
        return None
    others = f" So do {few(f'line {line}' for _, line in lines[1:])}." if lines[1:] else ""
    message = f"This line reads `.data` of a tensor, which is not traced.{others}"
    return failure.finding(RULE, message, "Replace `x.data` with `x.detach()`.", place=lines[0])


DIAGNOSIS = Diagnosis(RULE, explain)
