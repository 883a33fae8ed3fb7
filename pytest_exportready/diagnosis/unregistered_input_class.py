"""Every input is a tensor, or a container or class that torch.export can flatten.

Why it matters:
    The inputs of a program are tensors. torch.export flattens tuples, lists, dicts and registered classes into them.

Example:
    from dataclasses import dataclass

    @dataclass
    class Batch:
        x: torch.Tensor

    class Net(nn.Module):
        def forward(self, batch):
            return batch.x * 2

    export_ready_check(Net().eval(), (Batch(torch.randn(2, 4)),))

Instead:
    class Net(nn.Module):
        def forward(self, batch):
            return batch["x"] * 2

    export_ready_check(Net().eval(), ({"x": torch.randn(2, 4)},))

Severity:
    error: the export fails.

Not reported:
    Dataclasses that `torch.export.register_dataclass` registered.
"""

from __future__ import annotations

import dataclasses

from pytest_exportready.analysis.execution.dynamic_shapes import arguments
from pytest_exportready.analysis.execution.pytree import named_leaves
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER402", "inputs_are_known_classes", __doc__ or "")

_SIGNS = (
    r"Unsupported input type|input type .* not supported|one of the inputs with type"
    r"|unrecognized type .* at input|Expecting .* to be .* pytree"
)
_CLASS = r"<class '([\w.<>]+)'>|UserDefinedObjectVariable\((\w+)\)"


def explain(failure: Failure) -> Finding | None:
    if not failure.says(_SIGNS):
        return None
    named = failure.says(_CLASS)
    kind = (named[1] or named[2]).rsplit(".", 1)[-1] if named else "the class"
    leaves = [
        (f"{name}{path}", leaf)
        for name, value in arguments(failure.module, failure.trial.call).items()
        for path, leaf in named_leaves(value)
        if type(leaf).__name__ == kind
    ]
    where, value = leaves[0] if leaves else ("", None)
    fix = "Pass its tensors one by one, or in a tuple, list or dict; build the object in a wrapper's `forward`."
    if value is None or dataclasses.is_dataclass(value):
        fix = f"Call `torch.export.register_dataclass({kind})` next to the class, or pass its tensors one by one."
    return failure.finding(
        RULE,
        f"torch.export cannot flatten objects of class `{kind}`.",
        fix,
        where=f"argument {where} (class {kind})" if where else f"class {kind}",
    )


DIAGNOSIS = Diagnosis(RULE, explain)
