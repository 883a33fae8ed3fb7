"""`forward` contains only Python that torch.export can trace.

Why it matters:
    Files, threads, clocks, random numbers and skipped functions are not part of a program. Strict export reads bytecode
    and supports less of Python than non-strict export, which runs it.

Example:
    import time

    class Net(nn.Module):
        def forward(self, x):
            return x + 0 * time.time()

    export_ready_check(Net().eval(), (torch.randn(2, 4),), strict=True)

Instead:
    class Net(nn.Module):
        def forward(self, x):
            return x + 1

    export_ready_check(Net().eval(), (torch.randn(2, 4),), strict=True)

Severity:
    error: the export fails.
"""

from __future__ import annotations

from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER427", "forward_is_traceable", __doc__ or "")

_TYPES = (
    r"(?m)^(?:Unsupported|UserError|TorchRuntimeError|InternalTorchDynamoError|Observed\w+|SkipFrame|\w*Observed\w*):"
)
_DISABLED = r"compiler\.disable|Non-recursive"
_RANDOM = r"RandomValueSource|random\.random|Generator\b(?! reconstruction)|manual_seed"
_KINDS = (
    (_DISABLED, "a function under `torch.compiler.disable`", "Remove the decorator, or call it outside `forward`"),
    (_RANDOM, "a random number", "Remove randomness from eval mode, or pass the random tensor as an input"),
    (r"\btime\b.*(?:skipped|builtin)|perf_counter", "the clock", "Measure time outside `forward`"),
    (r"\b[Ll]ogg|`print`|\bprint\b", "logging or printing", "Log outside `forward`"),
    (r"generator|yield", "a generator", "Build a list"),
    (r"(?i)context manager", "a context manager", "Enter it outside `forward`"),
)


def explain(failure: Failure) -> Finding | None:
    if not any(map(failure.says, (_TYPES, _DISABLED, _RANDOM))):
        return None
    strict = failure.trial.mode == "strict"
    also = ", or export with `strict=False`, which runs Python instead of reading it." if strict else "."
    for pattern, what, fix in _KINDS:
        if failure.says(pattern):
            return failure.finding(RULE, f"`forward` uses {what}, which torch.export cannot trace.", fix + also)
    export = "strict export" if strict else "torch.export"
    return failure.finding(
        RULE,
        f"`forward` contains Python code that {export} cannot trace.",
        f"Move this code out of `forward`, or write it with torch operators{also}",
    )


DIAGNOSIS = Diagnosis(RULE, explain, turn="last")
