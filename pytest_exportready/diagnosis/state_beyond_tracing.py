"""``forward`` changes something that the program cannot follow, so that a tensor of the trace is left in it.

Bad: ``self.weight.data = ...``, new parameters or modules, ``torch.autograd.grad``, threads. Good: a registered buffer
that is written in place (``self.count.add_(1)``), made in ``__init__``.
"""

from __future__ import annotations

import re

from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER421", "state_is_written_in_place", __doc__ or "")

_SIGNS = re.compile(
    r"found a fake tensor in the exported program constant|were assigned during export"
    r"|use `torch\.nn\.Parameter\(\)` with export|leaf Variable that requires grad is being used in an in-place"
    r"|UnsupportedMutation|UNSUPPORTED_ALIASED_MUTATED|[Mm]utating .* not (?:in|supported)|[Ss]ide effect"
    r"|register_buffer|register_parameter|\bresize_|\bset_\(|with_detached"
)
_ATTRIBUTE = re.compile(r"attributes? ([\w., ]+?) w(?:ere|as) assigned during export")


def explain(failure: Failure) -> Finding | None:
    if not failure.says(_SIGNS):
        return None
    named = failure.says(_ATTRIBUTE)
    found = [
        s for s in failure.suspects if s.what == "state" and (not failure.place[0] or failure.place == (s.file, s.line))
    ]
    words = f": {found[0].words}" if found else ""
    return failure.finding(
        RULE,
        named[1].removeprefix("self.") if named else "",
        "forward changes parameters, attributes or objects in a way that the program cannot follow" + words,
        "make parameters and buffers in __init__, and write buffers in place (self.count.add_(1)); no .data =,"
        " autograd.grad or threads in forward",
        (found[0].file, found[0].line) if found else None,
    )


DIAGNOSIS = Diagnosis(RULE, explain)
