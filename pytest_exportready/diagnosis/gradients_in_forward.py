"""``forward`` computes gradients itself, which the exported program of inference cannot.

Bad: ``torch.autograd.grad`` in ``forward``. Good: ``torch.func.grad`` or the derivative written out.
"""

from __future__ import annotations

import re

from pytest_exportready.diagnose import Diagnosis, Failure
from pytest_exportready.finding import Finding, Rule

RULE = Rule("ER422", "no_gradients_in_forward", __doc__ or "")

_SIGNS = re.compile(
    r"Tensor\.requires_grad_\(\)|Tensor\.backward\(\)|autograd\.grad\b|autograd\.functional|does not require grad"
    r"|autograd\.backward"
)


def explain(failure: Failure) -> Finding | None:
    if not failure.says(_SIGNS):
        return None
    return failure.finding(
        RULE,
        "",
        "forward computes gradients",
        "write the derivative out or use torch.func.grad; keep backward() and requires_grad_() in the training loop",
    )


DIAGNOSIS = Diagnosis(RULE, explain)
