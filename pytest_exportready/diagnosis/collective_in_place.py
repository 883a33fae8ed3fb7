"""`forward` calls collectives of torch.distributed only in a form that an exported program can keep.

Why it matters:
    torch.export makes `all_reduce` functional. Lists of tensors, `broadcast`, `send` and others have no such form.
    `exportable_all_gather(x, "data_parallel")` replaces `dist.all_gather(parts, x)`; other collectives have the same.

Severity:
    error: the export fails.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import FunctionType

from torch import nn

from pytest_exportready.analysis.source.function_source import source_of
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER429", "collectives_functional", __doc__ or "")

_SIGNS = (
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
    fix = "Move it out of `forward`: it has no functional form."
    if name in _FORMS:
        fix = f'Use `x = {_FORMS[name]}(x, "group")` and call `name_group("group", group)` in each process.'
    message = f"`torch.distributed.{name}` in `forward` works in place or on lists, which a program cannot contain."
    return failure.finding(RULE, message, fix, place=(file, line))


def _collectives(model: nn.Module) -> Iterator[tuple[str, str, int]]:
    """Yield name, file and line of the calls into torch.distributed in the forwards of user modules."""
    for forward in dict.fromkeys(type(module).forward for module in model.modules()):
        source = source_of(forward) if isinstance(forward, FunctionType) else None
        if source is None:
            continue
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Call) and _is_distributed(ast.unparse(node.func), source.function):
                yield ast.unparse(node.func).rpartition(".")[2], source.file, node.lineno


def _is_distributed(name: str, function: FunctionType) -> bool:
    first, *rest = name.split(".")
    value = function.__globals__.get(first)
    for part in rest:
        value = getattr(value, part, None)
    return isinstance(value, FunctionType) and value.__module__ == "torch.distributed.distributed_c10d"


DIAGNOSIS = Diagnosis(RULE, explain, turn="first")
