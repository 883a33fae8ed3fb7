"""No backward hook is registered when the export is strict.

Why it matters:
    Strict export cannot trace backward hooks. They have no effect once training is over. Remove
    them with `handle.remove()`, where `handle` is what registering them returned.

Severity:
    error: the export fails.

Not reported:
    Hooks that were registered before the export (`ER303 ddp_hooks_emptied`).
"""

from __future__ import annotations

from pytest_exportready.analysis.torch_internals.hooks import backward_hooks
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import few
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER413", "no_backward_hooks", __doc__ or "")

_SIGNS = (
    r"Module-level backwards? hooks|[Bb]ackward hooks? .*(not supported|unsupported)|BackwardHook"
    r"|register_hook|register_multi_grad_hook|register_post_accumulate_grad_hook"
)


def explain(failure: Failure) -> Finding | None:
    if not failure.says(_SIGNS):
        return None
    hooked = [name for name, module in failure.module.named_modules() if backward_hooks(module)]
    return failure.finding(
        RULE,
        "The module has a backward hook." if hooked else "`forward` registers a backward hook.",
        "Remove the hook after training (`handle.remove()`), or export with `strict=False`.",
        where=few(hooked),
    )


DIAGNOSIS = Diagnosis(RULE, explain)
