"""``forward`` calls a GradScaler: loss scaling belongs to the training step.

Bad: ``return self.scaler.scale(loss)`` in ``forward``. Good: scale in the training loop.
"""

from __future__ import annotations

import re

from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER414", "no_grad_scaler_in_forward", __doc__ or "")

_SIGNS = re.compile(r"\bGradScaler\b")


def explain(failure: Failure) -> Finding | None:
    if not (failure.says(_SIGNS) or failure.comes_through("amp/grad_scaler.py")):
        return None
    return failure.finding(
        RULE,
        "",
        "forward calls a GradScaler",
        "scale the loss in the training loop, and take the scaler off the module",
    )


DIAGNOSIS = Diagnosis(RULE, explain)
