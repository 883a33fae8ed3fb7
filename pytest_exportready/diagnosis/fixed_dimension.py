"""Every dimension that is declared dynamic stays dynamic in `forward`, and is at least 2 in the example inputs.

Why it matters:
    A size that is written in the source, or that must equal another, becomes a constant. torch.export also takes
    example sizes 0 and 1 for constants, and refuses a range of sizes of which `forward` or an operator accepts a part:
    on a GPU `BatchNorm2d` takes at most 65535 rows.

Example:
    class Net(nn.Module):
        def forward(self, x):
            return x.reshape(2, 12)

    export_ready_check(Net().eval(), (torch.randn(2, 3, 4),), dynamic_batch=True)

Instead:
    class Net(nn.Module):
        def forward(self, x):
            return x.flatten(1)

    export_ready_check(Net().eval(), (torch.randn(2, 3, 4),), dynamic_batch=True)

Severity:
    error: the export fails.
"""

from __future__ import annotations

from typing import Any

from torch.export import Dim

from pytest_exportready.analysis.execution.dynamic_shapes import Dynamic, declared
from pytest_exportready.analysis.execution.pytree import flatten
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure
from pytest_exportready.diagnosis._draft import draft_problems, other_places

RULE = Rule("ER403", "dimension_stays_dynamic", __doc__ or "")

_SIGNS = (
    r"specialized it to be a constant|0/1 specialized|has been specialized|were specialized"
    r"|Constraints violated|Not all values of .* satisfy the generated guard|must always be equal"
    r"|ConstraintViolationError|ValueRangeError"
)
_AS_KEY = r"unhashable type: non-nested SymInt"
_SIZE = r"\bL\['(\w+)'\]\.size\(\)\[(\d+)\]|\b(\w+)\.shape\[(\d+)\]"
_NARROWER = r"Suggested fixes:\s+\w+ = (Dim\('\w+'(?:, (?:min|max)=\d+)+\))\s*(?:\n\s*\n|$)"  # the only one
_DIM = r"marked (\w+) as dynamic|Constraints violated \((\w+)|of (\w+) = L\["


def explain(failure: Failure) -> Finding | None:
    dims = _declared(failure)
    if not (failure.says(_SIGNS) or (dims and failure.says(_AS_KEY))):
        return None
    leaves = flatten(failure.trial.call)[0]
    small = [d.where for d in dims if leaves[d.leaf].shape[d.dim] < 2]
    if small:
        return failure.finding(
            RULE,
            "This dimension is declared dynamic, but its example size is below 2, which makes it a constant.",
            "Give an example of size 2 or more.",
            where=small[0],
        )
    guards = draft_problems(failure, "GUARD_ADDED")
    guarded = [d.where for d in dims if any(d.where in guard.subjects for guard in guards)]
    where = next(filter(None, [_named_size(failure), _named_dim(failure), *guarded, *(d.where for d in dims)]), "")
    guards = [guard for guard in guards if where in guard.subjects]
    place = failure.place
    if not place[0]:
        place = next(((guard.file, guard.line) for guard in guards if guard.file), place)
    if narrower := failure.says(_NARROWER):
        instead = " instead of `dynamic_batch=True`" if failure.trial.options.dynamic_batch else ""
        return failure.finding(
            RULE,
            "This dimension is declared for more sizes than `forward`, or an operator in it, accepts.",
            f"Declare `{narrower[1]}` for it in `dynamic_shapes`{instead}.",
            where=where,
            place=place,
        )
    return failure.finding(
        RULE,
        "This dimension is declared dynamic, but `forward` makes it a constant or ties it to another size."
        + other_places(guards, *place),
        "Replace the number with `x.shape[0]`, `flatten(1)` or `-1`; if two sizes must be equal, use one `Dim`.",
        where=where,
        place=place,
    )


def _declared(failure: Failure, only: str = "") -> list[Dynamic]:
    """Return the dimensions that are declared dynamic, or those of the Dim called ``only``."""
    spec = failure.dynamic_shapes
    return declared(failure.module, failure.trial.call, _without_others(spec, only) if only else spec)


def _named_size(failure: Failure) -> str:
    found = failure.says(_SIZE)
    return f"{found[1] or found[3]}.shape[{found[2] or found[4]}]" if found else ""


def _named_dim(failure: Failure) -> str:
    found = failure.says(_DIM)
    return next((d.where for d in _declared(failure, found[1] or found[2] or found[3])), "") if found else ""


def _without_others(spec: Any, name: str) -> Any:
    if isinstance(spec, dict):
        return {key: _without_others(entry, name) for key, entry in spec.items()}
    if isinstance(spec, (list, tuple)):
        return type(spec)(_without_others(entry, name) for entry in spec)
    return spec if isinstance(spec, Dim) and spec.__name__ == name else None


DIAGNOSIS = Diagnosis(RULE, explain)
