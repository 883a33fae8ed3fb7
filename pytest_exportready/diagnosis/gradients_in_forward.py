"""``forward`` computes gradients itself, which the exported program of inference cannot.

Bad: ``torch.autograd.grad`` in ``forward``. Good: ``torch.func.grad`` or the derivative written out.
"""

from __future__ import annotations

import re

from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER422", "no_gradients_in_forward", __doc__ or "")

_SIGNS = re.compile(
    r"Tensor\.requires_grad_\(\)|Tensor\.backward\(\)|autograd\.grad\b|autograd\.functional|does not require grad"
    r"|autograd\.backward"
)
_LEFT = re.compile(r"found a fake tensor in the exported program constant")  # by the trace of a gradient


def explain(failure: Failure) -> Finding | None:
    lines = [s for s in failure.suspects if s.what == "state" and s.words.endswith("computes gradients")]
    if not (failure.says(_SIGNS) or (lines and failure.says(_LEFT))):
        return None
    return failure.finding(
        RULE,
        "",
        "forward computes gradients",
        "write the derivative out or use torch.func.grad; keep backward() and requires_grad_() in the training loop",
        (lines[0].file, lines[0].line) if lines and not failure.place[0] else None,
    )


DIAGNOSIS = Diagnosis(RULE, explain)
