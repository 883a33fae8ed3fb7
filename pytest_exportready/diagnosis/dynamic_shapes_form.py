"""The `dynamic_shapes` of the case have the form that torch.export expects, and fit the inputs.

Why it matters:
    Keys are the parameters of `forward`, then numbers of dimensions; values are `Dim("batch")`, `Dim.AUTO` or None.

Example:
    shapes = {"input": {0: "batch"}}
    export_ready_check(nn.Linear(4, 4).eval(), (torch.randn(2, 4),), dynamic_shapes=shapes)

Instead:
    shapes = {"input": {0: torch.export.Dim("batch")}}
    export_ready_check(nn.Linear(4, 4).eval(), (torch.randn(2, 4),), dynamic_shapes=shapes)

Severity:
    error: the export fails.
"""

from __future__ import annotations

from pytest_exportready.analysis.execution.dynamic_shapes import arguments
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER405", "dynamic_shapes_well_formed", __doc__ or "")

_SIGNS = (
    r"When `dynamic_shapes` is specified|specified at `dynamic_shapes|dynamic_shapes.* to be a"
    r"|Detected mismatch between the structure of `inputs` and `dynamic_shapes`"
)


def explain(failure: Failure) -> Finding | None:
    if failure.trial.options.dynamic_shapes is None:
        return None
    beyond = isinstance(failure.error, IndexError) and not failure.place[0]  # torch does not check the dimension
    if not beyond and not failure.says(_SIGNS):
        return None
    inputs = arguments(failure.module, failure.trial.call)
    shapes = [f"{name} ({_shape(value)})" for name, value in inputs.items()]
    problem = "names a dimension that an input does not have" if beyond else "has a form that torch.export rejects"
    return failure.finding(
        RULE,
        f"`dynamic_shapes` {problem}. The inputs are {', '.join(shapes)}.",
        f'Write it as in `dynamic_shapes={{"{next(iter(inputs), "x")}": {{0: torch.export.Dim("batch")}}}}`.',
        where="dynamic_shapes",
    )


def _shape(value: object) -> str:
    return f"{value.dim()} dimensions" if hasattr(value, "dim") else type(value).__name__


DIAGNOSIS = Diagnosis(RULE, explain)
