"""The module is built, and its weights are loaded, outside of `torch.inference_mode()`.

Why it matters:
    Parameters made in inference mode are inference tensors, which a non-strict export rejects.

Example:
    with torch.inference_mode():
        model = nn.Linear(4, 4).eval()
    export_ready_check(model, (torch.randn(2, 4),))

Instead:
    with torch.no_grad():
        model = nn.Linear(4, 4).eval()
    export_ready_check(model, (torch.randn(2, 4),))

Severity:
    error: the export fails.
"""

from __future__ import annotations

from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import few
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER431", "built_outside_inference_mode", __doc__ or "")


def explain(failure: Failure) -> Finding | None:
    made = [name for name, tensor in failure.tensors.items() if tensor.is_inference()]
    if not made or not failure.says("[Ii]nference ?(tensor|[Mm]ode)"):
        return None
    return failure.finding(
        RULE,
        "This tensor was made in `torch.inference_mode()`, which a non-strict export rejects.",
        "Build the module and load its weights outside of `torch.inference_mode()`; `torch.no_grad()` is fine.",
        where=few(made),
    )


DIAGNOSIS = Diagnosis(RULE, explain)
