"""The ``dynamic_shapes`` asked for have not the form that torch.export wants, or do not fit the inputs.

Keys are the names of forward's parameters, then numbers of dimensions; values are ``Dim("batch")``, ``Dim.AUTO`` or
None. Bad: ``{"x": {0: "batch"}}``. Good: ``{"x": {0: torch.export.Dim("batch")}}``.
"""

from __future__ import annotations

import re

from pytest_exportready.analysis.execution.dynamic_shapes import arguments
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER405", "dynamic_shapes_well_formed", __doc__ or "")

_SIGNS = re.compile(
    r"When `dynamic_shapes` is specified|specified at `dynamic_shapes|dynamic_shapes.* to be a"
    r"|Detected mismatch between the structure of `inputs` and `dynamic_shapes`"
)


def explain(failure: Failure) -> Finding | None:
    asked = failure.trial.options.dynamic_shapes is not None
    beyond = isinstance(failure.error, IndexError) and not failure.place[0]  # torch does not check the dimension
    if not asked or not (beyond or _SIGNS.search(failure.text)):
        return None
    call = (failure.trial.case.args, failure.trial.case.kwargs)
    shapes = {name: f"{value.dim()} dimensions" if hasattr(value, "dim") else type(value).__name__
              for name, value in arguments(failure.module, call).items()}  # fmt: skip
    inputs = ", ".join(f"{name} ({shape})" for name, shape in shapes.items())
    return failure.finding(
        RULE,
        "dynamic_shapes",
        f"dynamic_shapes names a dimension that an input has not; inputs: {inputs}"
        if beyond
        else f"dynamic_shapes has not the form that torch.export wants; inputs: {inputs}",
        f'dynamic_shapes={{"{next(iter(shapes), "x")}": {{0: torch.export.Dim("batch")}}}}',
    )


DIAGNOSIS = Diagnosis(RULE, explain)
