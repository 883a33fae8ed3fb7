"""``forward``, or an ``autograd.Function`` in it, reads ``.data`` of a tensor that the trace is about.

What ``.data`` gives is unknown to the trace, which takes it for a constant without values. Bad: ``x.data.round()``.
Good: ``x.detach().round()``, which is recorded.
"""

from __future__ import annotations

import re

from pytest_exportready.analysis.source.autograd_functions import lines_reading
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import few
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER428", "no_data_attribute", __doc__ or "")

_SIGNS = re.compile(r"found a fake tensor in the exported program constant")


def explain(failure: Failure) -> Finding | None:
    if not failure.says(_SIGNS) or any(suspect.what == "state" for suspect in failure.suspects):
        return None
    lines = lines_reading(failure.module, "data")
    if not lines:
        return None
    others = [f"line {line}" for _, line in lines[1:]]
    also = f"; also in {few(others)}" if others else ""
    message = f"`.data` of a tensor is read here, and the trace loses sight of it{also}"
    return failure.finding(RULE, "", message, "x.detach() in place of x.data", lines[0])


DIAGNOSIS = Diagnosis(RULE, explain)
