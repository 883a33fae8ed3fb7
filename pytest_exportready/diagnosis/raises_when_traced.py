"""Python code of `forward` does not raise while it is traced.

Why it matters:
    `torch.compiler.is_compiling()`, `is_exporting()` and checks of a tensor's class lead tracing into branches that
    were never run in eager mode.

Example:
    class Net(nn.Module):
        def forward(self, x, mask=None):
            if torch.compiler.is_exporting():
                return x * mask[:, None]
            return x

    export_ready_check(Net().eval(), (torch.randn(2, 4),))

Instead:
    class Net(nn.Module):
        def forward(self, x, mask=None):
            return x if mask is None else x * mask[:, None]

    export_ready_check(Net().eval(), (torch.randn(2, 4),))

Severity:
    error: the export fails.

Not reported:
    Exceptions that torch raises.
"""

from __future__ import annotations

import traceback

from pytest_exportready.analysis.source.user_frames import is_users
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER430", "forward_raises_nothing_when_traced", __doc__ or "")


def explain(failure: Failure) -> Finding | None:
    frames = traceback.extract_tb(failure.error.__traceback__)
    by_torch = type(failure.error).__module__.split(".")[0] == "torch"
    if by_torch or not frames or not is_users(frames[-1].filename):
        return None
    raised = frames[-1]
    return failure.finding(
        RULE,
        f"`{raised.name}` raises while it is traced, but not in eager mode.",
        "Look for `is_compiling()`, `is_exporting()` or a check of a tensor's class. Pass the input that this branch"
        " needs, or use one branch for both modes.",
        place=(raised.filename, raised.lineno or 0),
    )


DIAGNOSIS = Diagnosis(RULE, explain, turn="last")
