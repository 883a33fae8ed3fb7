"""An input is an object of a class that torch.export does not know how to take apart.

Good: ``torch.export.register_dataclass(Batch)`` once, where the class is defined.
"""

from __future__ import annotations

import dataclasses
import re

from pytest_exportready.analysis.execution.dynamic_shapes import arguments
from pytest_exportready.analysis.execution.pytree import named_leaves
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER402", "inputs_are_known_classes", __doc__ or "")

_SIGNS = re.compile(
    r"Unsupported input type|input type .* not supported|one of the inputs with type"
    r"|unrecognized type .* at input|Expecting .* to be .* pytree"
)
_CLASS = re.compile(r"<class '([\w.<>]+)'>|UserDefinedObjectVariable\((\w+)\)")


def explain(failure: Failure) -> Finding | None:
    if not _SIGNS.search(failure.text):
        return None
    named = _CLASS.search(failure.text)
    kind = (named[1] or named[2]).rsplit(".", 1)[-1] if named else "the class"
    call = (failure.trial.case.args, failure.trial.case.kwargs)
    leaves = [
        (f"{name}{path}", leaf)
        for name, value in arguments(failure.module, call).items()
        for path, leaf in named_leaves(value)
        if type(leaf).__name__ == kind
    ]
    where, value = leaves[0] if leaves else ("", None)
    own = value is None or dataclasses.is_dataclass(value)
    return failure.finding(
        RULE,
        f"argument {where} (class {kind})" if where else f"class {kind}",
        f"torch.export cannot take objects of {kind} apart",
        f"torch.export.register_dataclass({kind}) next to the class, or pass its tensors one by one"
        if own
        else "pass its tensors one by one, or in a tuple, list or dict: let a wrapper's forward build the object",
    )


DIAGNOSIS = Diagnosis(RULE, explain)
