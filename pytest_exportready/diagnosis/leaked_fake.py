"""The module does not hold FakeTensors, tensors without data that an earlier export or trace left in it.

Why it matters:
    A FakeTensor belongs to the trace that made it, and a tensor of the next trace cannot be combined with it. Build the
    model again and load its checkpoint; export a copy, `torch.export.export(copy.deepcopy(model), ...)`.

Severity:
    error: the export fails.
"""

from __future__ import annotations

from pytest_exportready.analysis.torch_internals.tensors import is_fake
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import few
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER425", "no_fake_tensors_left", __doc__ or "")

_SIGNS = r"convert all Tensors to FakeTensors|[Mm]ixing fake modes|fake mode .*doesn't match|fake tensors that leaked"


def explain(failure: Failure) -> Finding | None:
    fakes = [name for name, tensor in failure.tensors.items() if is_fake(tensor)]
    if not fakes and not failure.says(_SIGNS):
        return None
    return failure.finding(
        RULE,
        "An earlier export left a FakeTensor here." if fakes else "An operator received FakeTensors of two traces.",
        "Build the module again and load its checkpoint; export a copy:"
        " `torch.export.export(copy.deepcopy(model), ...)`.",
        where=few(fakes),
    )


DIAGNOSIS = Diagnosis(RULE, explain)
