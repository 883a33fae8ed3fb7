"""A dimension declared dynamic is a constant in the source, or in the example.

An example of size 1 (or 0) is always taken as a constant. Bad: ``x.reshape(1, -1)`` with a dynamic batch.
Good: ``x.flatten(1)`` and an example batch of 2 or more.
"""

from __future__ import annotations

import re
from typing import Any

from torch.export import Dim

from pytest_exportready.analysis.execution.dynamic_shapes import Dynamic, declared, dynamic_shapes
from pytest_exportready.analysis.execution.pytree import flatten
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure
from pytest_exportready.diagnosis._draft import elsewhere, met_on_the_way

RULE = Rule("ER403", "dimension_stays_dynamic", __doc__ or "")

_SIGNS = re.compile(
    r"specialized it to be a constant|0/1 specialized|has been specialized|were specialized"
    r"|Constraints violated|Not all values of .* satisfy the generated guard|must always be equal"
    r"|ConstraintViolationError|ValueRangeError"
)
_AS_KEY = re.compile(r"unhashable type: non-nested SymInt")
_NAMED = re.compile(r"\bL\['(\w+)'\]\.size\(\)\[(\d+)\]|\b(\w+)\.shape\[(\d+)\]")
_OF_DIM = re.compile(r"marked (\w+) as dynamic|Constraints violated \((\w+)|of (\w+) = L\[")


def explain(failure: Failure) -> Finding | None:
    dims = _declared(failure)
    if not (failure.says(_SIGNS) or (dims and failure.says(_AS_KEY))):
        return None
    call = (failure.trial.case.args, dict(failure.trial.case.kwargs))
    leaves = flatten(call)[0]
    small = [d.where for d in dims if leaves[d.leaf].shape[d.dim] < 2]
    guards = [] if small else met_on_the_way(failure, "GUARD_ADDED")
    named = failure.says(_NAMED)
    told = {size for met in guards for size in met.subjects}
    where = next(
        filter(
            None, [*small, f"{named[1] or named[3]}.shape[{named[2] or named[4]}]" if named else "", _of_dim(failure)]
        ),
        next((d.where for d in dims if d.where in told), dims[0].where if dims else ""),
    )
    place = failure.place
    if not place[0]:
        place = next(((met.file, met.line) for met in guards if met.file and where in met.subjects), place)
    return failure.finding(
        RULE,
        where,
        "declared dynamic, but its example size is below 2 and is taken as a constant"
        if small
        else "declared dynamic, but forward makes it a constant or ties it to another size"
        + elsewhere([met for met in guards if where in met.subjects], *place),
        "give an example of size 2 or more; " * bool(small)
        + "take sizes from the input (x.shape[0], flatten(1), -1) instead of writing numbers",
        place,
    )


def _declared(failure: Failure, only: str = "") -> list[Dynamic]:
    """The dimensions declared dynamic, or those of the Dim called ``only``."""
    case = failure.trial.case
    call = (case.args, dict(case.kwargs))
    spec = dynamic_shapes(failure.module, call, failure.trial.options)
    return declared(failure.module, call, _without_others(spec, only) if only else spec)


def _of_dim(failure: Failure) -> str:
    found = failure.says(_OF_DIM)
    name = next(filter(None, found.groups()), "") if found else ""
    return next((d.where for d in _declared(failure, name)), "") if name else ""


def _without_others(spec: Any, name: str) -> Any:
    if isinstance(spec, dict):
        return {key: _without_others(entry, name) for key, entry in spec.items()}
    if isinstance(spec, (list, tuple)):
        return type(spec)(_without_others(entry, name) for entry in spec)
    return spec if isinstance(spec, Dim) and spec.__name__ == name else None


DIAGNOSIS = Diagnosis(RULE, explain)
