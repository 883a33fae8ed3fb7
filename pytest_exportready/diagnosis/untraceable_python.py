"""``forward`` does something in Python that export cannot trace: files, threads, clocks, random numbers, skipped
functions.

Strict export reads bytecode and knows less of Python than non-strict export, which runs it.
"""

from __future__ import annotations

import re

from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER427", "forward_is_traceable", __doc__ or "")

_TYPES = re.compile(
    r"^(?:Unsupported|UserError|TorchRuntimeError|InternalTorchDynamoError|Observed\w+|SkipFrame|\w*Observed\w*):",
    re.MULTILINE,
)
_EXPLAINED = re.compile(r"Explanation: (.+?)(?=\n *(?:Hint|Developer)|\n\n|$)", re.DOTALL)
_KINDS = (
    (re.compile(r"compiler\.disable|Non-recursive"), "a function under torch.compiler.disable",
     "take the decorator off, or call the function outside forward"),
    (re.compile(r"RandomValueSource|random\.random|Generator\b(?! reconstruction)|manual_seed"), "a random number",
     "take randomness out of the eval forward, or pass the random tensor as an input"),
    (re.compile(r"\btime\b.*(?:skipped|builtin)|perf_counter"), "the clock", "measure outside forward"),
    (re.compile(r"\b[Ll]ogg|`print`|\bprint\b"), "logging or printing", "log outside forward"),
    (re.compile(r"generator|yield"), "a generator", "build a list"),
    (re.compile(r"context manager", re.IGNORECASE), "a context manager", "leave it outside forward"),
)  # fmt: skip


def explain(failure: Failure) -> Finding | None:
    if not failure.says(_TYPES) and not failure.says(_KINDS[0][0]) and not failure.says(_KINDS[1][0]):
        return None
    strict = failure.trial.mode == "strict"
    also = "; or export with strict=False, which runs Python instead of reading it" if strict else ""
    for signs, what, fix in _KINDS:
        if failure.says(signs):
            return failure.finding(RULE, "", f"forward uses {what}, which export cannot trace", fix + also)
    told = failure.says(_EXPLAINED)
    why = f": {' '.join(told[1].split())[:160]}" if told else ""
    return failure.finding(
        RULE,
        "",
        f"forward does something in Python that {'strict ' if strict else ''}export cannot trace{why}",
        "move it out of forward, or write it with torch operators" + also,
    )


DIAGNOSIS = Diagnosis(RULE, explain, turn="last")
