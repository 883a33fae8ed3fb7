"""Every lazy module, such as `nn.LazyLinear`, has received an input.

Why it matters:
    Before its first input a lazy module has no weights, so it was not trained either.

Example:
    export_ready_check(nn.Sequential(nn.LazyLinear(4)).eval(), (torch.randn(2, 4),))

Instead:
    model = nn.Sequential(nn.LazyLinear(4)).eval()
    model(torch.randn(2, 4))
    export_ready_check(model, (torch.randn(2, 4),))

Severity:
    error: the export fails.
"""

from __future__ import annotations

from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import few
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER412", "lazy_modules_initialized", __doc__ or "")


def explain(failure: Failure) -> Finding | None:
    kinds = (UninitializedParameter, UninitializedBuffer)
    own = [*failure.module.named_parameters(), *failure.module.named_buffers()]
    lazy = dict.fromkeys(name.rpartition(".")[0] for name, tensor in own if isinstance(tensor, kinds))
    if not lazy:
        return None
    return failure.finding(
        RULE,
        "This lazy module never received an input, so it has no weights and was not trained.",
        "Call `model(*example_inputs)` once before training, or use `nn.Linear` with sizes instead of `nn.LazyLinear`.",
        where=few(lazy),
    )


DIAGNOSIS = Diagnosis(RULE, explain, turn="first")
