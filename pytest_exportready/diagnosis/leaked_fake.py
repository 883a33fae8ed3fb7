"""The module holds FakeTensors, tensors without data, that an earlier export or trace left in it.

Good: export a copy, or build the module anew from its checkpoint.
"""

from __future__ import annotations

import re

from pytest_exportready.analysis.module.unregistered_tensors import unregistered_tensors
from pytest_exportready.analysis.torch_internals.tensors import is_fake
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import few
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER425", "no_fake_tensors_left", __doc__ or "")

_SIGNS = re.compile(
    r"convert all Tensors to FakeTensors|[Mm]ixing fake modes|fake mode .*doesn't match|fake tensors that leaked"
)


def explain(failure: Failure) -> Finding | None:
    state = [*failure.module.named_parameters(), *failure.module.named_buffers(), *unregistered_tensors(failure.module)]
    fakes = [name for name, tensor in state if is_fake(tensor)]
    if not fakes and not failure.says(_SIGNS):
        return None
    return failure.finding(
        RULE,
        few(fakes),
        "holds a FakeTensor that an earlier export left behind" if fakes else "tensors of two traces meet",
        "build the module anew and load its checkpoint; export copies: torch.export.export(copy.deepcopy(model), ...)",
    )


DIAGNOSIS = Diagnosis(RULE, explain)
