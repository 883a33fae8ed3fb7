"""`forward` does not compute gradients.

Why it matters:
    An exported program of inference does not contain autograd.

Example:
    class Net(nn.Linear):
        def forward(self, x):
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                return torch.autograd.grad(super().forward(x).square().sum(), x)[0]

    export_ready_check(Net(4, 4).eval(), (torch.randn(2, 4),), strict=True)

Instead:
    class Net(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x) @ self.weight

    export_ready_check(Net(4, 4).eval(), (torch.randn(2, 4),), strict=True)

Severity:
    error: the export fails.
"""

from __future__ import annotations

from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER422", "no_gradients_in_forward", __doc__ or "")

_SIGNS = (
    r"Tensor\.requires_grad_\(\)|Tensor\.backward\(\)|autograd\.grad\b|autograd\.functional|does not require grad"
    r"|autograd\.backward"
)
_LEFT = r"found a fake tensor in the exported program constant"  # by the trace of a gradient


def explain(failure: Failure) -> Finding | None:
    lines = [s for s in failure.suspects if s.what == "state" and s.words.endswith("computes gradients")]
    if not (failure.says(_SIGNS) or (lines and failure.says(_LEFT))):
        return None
    return failure.finding(
        RULE,
        "`forward` computes gradients.",
        "Write the derivative out or use `torch.func.grad`; keep `backward()` and `requires_grad_()` in the training"
        " loop.",
        place=(lines[0].file, lines[0].line) if lines and not failure.place[0] else None,
    )


DIAGNOSIS = Diagnosis(RULE, explain)
