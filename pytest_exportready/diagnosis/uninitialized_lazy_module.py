"""A lazy module (``nn.LazyLinear``) has never seen an input, so that it has no weights yet.

Good: ``model(*example_inputs)`` once, before training and export.
"""

from __future__ import annotations

from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import few
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER412", "lazy_modules_initialized", __doc__ or "")


def explain(failure: Failure) -> Finding | None:
    lazy = [name for name, m in failure.module.named_modules() if _uninitialized(m)]
    if not lazy:
        return None
    return failure.finding(
        RULE,
        few(lazy),
        "a lazy module that has never run: it has no weights, so it was never trained",
        "call model(*example_inputs) once before training, or name the sizes (nn.Linear instead of nn.LazyLinear)",
    )


def _uninitialized(module: nn.Module) -> bool:
    own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
    return any(isinstance(tensor, (UninitializedParameter, UninitializedBuffer)) for tensor in own)


DIAGNOSIS = Diagnosis(RULE, explain, turn="first")
