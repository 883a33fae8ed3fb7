"""`forward` changes no state, except registered buffers in place.

Why it matters:
    A program records in-place writes to buffers. Other changes leave a tensor of the trace in the module.

Example:
    class Net(nn.Linear):
        def forward(self, x):
            self.scale = nn.Parameter(torch.ones(4))
            return super().forward(x) * self.scale

    export_ready_check(Net(4, 4).eval(), (torch.randn(2, 4),), strict=True)

Instead:
    class Net(nn.Linear):
        def forward(self, x):
            return super().forward(x)

    export_ready_check(Net(4, 4).eval(), (torch.randn(2, 4),), strict=True)

Severity:
    error: the export fails.

Not reported:
    Buffers that are registered in `__init__` and written in place (`self.count.add_(1)`).
"""

from __future__ import annotations

from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER421", "state_is_written_in_place", __doc__ or "")

_SIGNS = (
    r"found a fake tensor in the exported program constant|were assigned during export"
    r"|use `torch\.nn\.Parameter\(\)` with export|leaf Variable that requires grad is being used in an in-place"
    r"|UnsupportedMutation|UNSUPPORTED_ALIASED_MUTATED|[Mm]utating .* not (?:in|supported)|[Ss]ide effect"
    r"|register_buffer|register_parameter|\bresize_|\bset_\(|with_detached"
)
_FIX = "Create parameters and buffers in `__init__`, and write buffers in place (`self.count.add_(1)`)."
_ATTRIBUTE = r"attributes? ([\w., ]+?) w(?:ere|as) assigned during export"


def explain(failure: Failure) -> Finding | None:
    if not failure.says(_SIGNS):
        return None
    attribute = failure.says(_ATTRIBUTE)
    writes = [s for s in failure.suspects if s.what == "state"]
    here = next((s for s in writes if failure.place in (("", 0), (s.file, s.line))), None)
    return failure.finding(
        RULE,
        f"{here.words}, which a program cannot record."
        if here
        else "`forward` changes parameters, attributes or objects in a way that a program cannot record.",
        _FIX if here else f"{_FIX} Do not use `.data =`, `autograd.grad` or threads in `forward`.",
        where=attribute[1].removeprefix("self.") if attribute else "",
        place=(here.file, here.line) if here else None,
    )


DIAGNOSIS = Diagnosis(RULE, explain)
