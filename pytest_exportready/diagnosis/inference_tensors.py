"""The module was built, or its weights were loaded, within ``torch.inference_mode()``: only a strict export takes it.

Bad:  ``with torch.inference_mode(): model = build()``
Good: ``model = build()``, and ``with torch.inference_mode(): model(x)``; or ``with torch.no_grad(): model = build()``.
"""

from __future__ import annotations

import re

from pytest_exportready.analysis.module.unregistered_tensors import unregistered_tensors
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import few
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER431", "built_outside_inference_mode", __doc__ or "")


_SIGNS = re.compile("[Ii]nference ?(tensor|[Mm]ode)")


def explain(failure: Failure) -> Finding | None:
    state = [*failure.module.named_parameters(), *failure.module.named_buffers(), *unregistered_tensors(failure.module)]
    made = [name for name, tensor in state if tensor.is_inference()]
    if not made or not failure.says(_SIGNS):
        return None
    return failure.finding(
        RULE,
        few(made),
        "an inference tensor, made within torch.inference_mode(), which a non-strict export cannot take",
        "build the module and load its weights outside of torch.inference_mode(); torch.no_grad() is fine",
    )


DIAGNOSIS = Diagnosis(RULE, explain)
