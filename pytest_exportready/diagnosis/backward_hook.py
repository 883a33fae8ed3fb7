"""A backward hook is registered, which strict export cannot trace; it has nothing to do once training is over.

Good: ``handle.remove()`` with what ``register_full_backward_hook`` or ``tensor.register_hook`` returned.
"""

from __future__ import annotations

import re

from pytest_exportready.analysis.torch_internals.hooks import backward_hooks
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import few
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER413", "no_backward_hooks", __doc__ or "")

_SIGNS = re.compile(
    r"Module-level backwards? hooks|[Bb]ackward hooks? .*(not supported|unsupported)|BackwardHook"
    r"|register_hook|register_multi_grad_hook|register_post_accumulate_grad_hook"
)


def explain(failure: Failure) -> Finding | None:
    if not failure.says(_SIGNS):
        return None
    hooked = [name for name, module in failure.module.named_modules() if backward_hooks(module)]
    return failure.finding(
        RULE,
        few(hooked),
        "a backward hook of the module is in the way" if hooked else "forward registers a backward hook",
        "remove it after training (handle.remove()), or export with strict=False",
    )


DIAGNOSIS = Diagnosis(RULE, explain)
