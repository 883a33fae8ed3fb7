"""A dimension declared dynamic is a constant in the source, or in the example.

An example of size 1 (or 0) is always taken as a constant. Bad: ``x.reshape(1, -1)`` with a dynamic batch.
Good: ``x.flatten(1)`` and an example batch of 2 or more.
"""

from __future__ import annotations

import re

from pytest_exportready.diagnose import Diagnosis, Failure
from pytest_exportready.finding import Finding, Rule
from pytest_exportready.proof.dynamic import declared, dynamic_shapes
from pytest_exportready.proof.pytree import flatten

RULE = Rule("ER403", "dimension_stays_dynamic", __doc__ or "")

_SIGNS = re.compile(
    r"specialized it to be a constant|0/1 specialized|has been specialized|were specialized"
    r"|Constraints violated|Not all values of .* satisfy the generated guard|must always be equal"
    r"|ConstraintViolationError|ValueRangeError"
)
_NAMED = re.compile(r"\bL\['(\w+)'\]\.size\(\)\[(\d+)\]|\b(\w+)\.shape\[(\d+)\]")


def explain(failure: Failure) -> Finding | None:
    if not _SIGNS.search(failure.text):
        return None
    case, options = failure.trial.case, failure.trial.options
    call = (case.args, dict(case.kwargs))
    dims = declared(failure.module, call, dynamic_shapes(failure.module, call, options))
    leaves = flatten(call)[0]
    small = [d.where for d in dims if leaves[d.leaf].shape[d.dim] < 2]
    named = _NAMED.search(failure.text)
    said = f"{named[1] or named[3]}.shape[{named[2] or named[4]}]" if named else ""
    where = small[0] if small else said or (dims[0].where if dims else "")
    return failure.finding(
        RULE,
        where,
        "declared dynamic, but its example size is below 2 and is taken as a constant"
        if small
        else "declared dynamic, but forward makes it a constant or ties it to another size",
        "give an example of size 2 or more; " * bool(small)
        + "take sizes from the input (x.shape[0], flatten(1), -1) instead of writing numbers",
    )


DIAGNOSIS = Diagnosis(RULE, explain)
