"""A collective of torch.distributed in forward has no form that an export can keep.

``all_reduce`` is turned into a functional one; lists of tensors, ``broadcast``, ``send`` and others are not.
Bad: ``dist.all_gather(parts, x)``. Good: ``exportable_all_gather(x, "data_parallel")``.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from types import FunctionType

from torch import nn

from pytest_exportready.analysis.source.user_frames import is_users
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER429", "collectives_functional", __doc__ or "")

_SIGNS = re.compile(
    r"Node\.meta (?:broadcast|all_?(?:gather|reduce|to_?all)|reduce|scatter|gather|barrier|send|recv)\w*_ has invalid"
    r"|c10d::|ProcessGroup|pybind11_type"
)
_FORMS = {
    "all_reduce": "exportable_all_reduce",
    "all_gather": "exportable_all_gather",
    "all_gather_into_tensor": "exportable_all_gather",
    "reduce_scatter": "exportable_reduce_scatter",
    "reduce_scatter_tensor": "exportable_reduce_scatter",
    "all_to_all": "exportable_all_to_all",
    "all_to_all_single": "exportable_all_to_all",
    "broadcast": "exportable_broadcast",
}


def explain(failure: Failure) -> Finding | None:
    if not failure.says(_SIGNS) and not failure.comes_through("distributed/distributed_c10d.py"):
        return None
    called = list(_collectives(failure.module))
    if not called:
        return None
    name, file, line = next((c for c in called if (c[1], c[2]) == failure.place), called[0])
    form = _FORMS.get(name)
    fix = f'x = {form}(x, "group") of pytest_exportready, with name_group("group", group) in each process'
    if form is None:
        fix = "keep it out of forward: no functional form of it exists"
    message = f"torch.distributed.{name} in forward works in place or on lists, which no program can keep"
    return failure.finding(RULE, "", message, fix, (file, line))


def _collectives(model: nn.Module) -> Iterator[tuple[str, str, int]]:
    """Name, file and line of the calls into torch.distributed in the forwards of the user's modules."""
    for forward in {getattr(type(module).forward, "__wrapped__", type(module).forward) for module in model.modules()}:
        if not isinstance(forward, FunctionType) or not is_users(forward.__code__.co_filename):
            continue
        try:
            lines, first = inspect.getsourcelines(forward)
            tree = ast.parse(textwrap.dedent("".join(lines)))
        except (OSError, SyntaxError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                if _is_distributed(name, forward):
                    yield name.rpartition(".")[2], forward.__code__.co_filename, first + node.lineno - 1


def _is_distributed(name: str, function: FunctionType) -> bool:
    first, *rest = name.split(".")
    value = function.__globals__.get(first)
    for part in rest:
        value = getattr(value, part, None)
    return isinstance(value, FunctionType) and value.__module__ == "torch.distributed.distributed_c10d"


DIAGNOSIS = Diagnosis(RULE, explain, turn="first")
