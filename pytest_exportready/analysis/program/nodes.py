"""Read the nodes of an exported program: arguments by schema name, source line, owning module."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import torch
from torch.export import ExportedProgram

from pytest_exportready.analysis.source.user_frames import stack_place
from pytest_exportready.case.wording import few

# Namespaces of torch and of the packages that ship operators with it.
_NAMESPACES = re.compile(
    "aten|prims?|higher_order|_?c10d(_functional)?|_c10d_functional_autograd|_dtensor|fsdp|symm_mem|_?quantized|"
    "quantized_decomposed|torchao|torchvision|torchaudio|torch_attn|image|sparse|mkl|mkldnn|onednn|onnx|inductor|"
    "rngprims|debugprims|export|static_runtime|streams"
)


def graphs(program: ExportedProgram) -> Iterator[torch.fx.GraphModule]:
    """Yield the program's graph and those nested in it (autocast regions, branches)."""
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            yield module


def calls(program: ExportedProgram) -> Iterator[torch.fx.Node]:
    """Yield every operator call of the program, including nested graphs."""
    for module in graphs(program):
        yield from (node for node in module.graph.nodes if node.op == "call_function")


def on_cpu(program: ExportedProgram) -> bool:
    """Return whether every tensor of the program is on the CPU."""
    values = (node.meta.get("val") for module in graphs(program) for node in module.graph.nodes)
    flat = (one for value in values for one in (value if isinstance(value, (tuple, list)) else [value]))
    return all(one.device.type == "cpu" for one in flat if isinstance(one, torch.Tensor))


def argument(node: torch.fx.Node, name: str) -> Any:
    """Return the value of the argument ``name`` of a node's operator; None if it has no such argument."""
    declared = _arguments(node.target)
    if name not in declared:
        return None
    position, default = declared[name]
    return node.args[position] if position < len(node.args) else node.kwargs.get(name, default)


def declares(node: torch.fx.Node, name: str) -> bool:
    """Return whether the operator of ``node`` has an argument ``name``."""
    return name in _arguments(node.target)


def is_users_operator(node: torch.fx.Node) -> bool:
    """Return whether the operator of ``node`` is a custom operator."""
    return is_custom(node.target)


def is_custom(operator: Any) -> bool:
    """Return whether ``operator`` was not registered by torch or a package that ships with it."""
    return hasattr(operator, "_schema") and not _NAMESPACES.fullmatch(operator.namespace)


def operator_name(node: torch.fx.Node) -> str:
    """Return ``namespace::name`` of the operator of ``node``, or its name (``wrap_with_autocast``)."""
    return str(getattr(getattr(node.target, "_schema", None), "name", node.target))


def nested(node: torch.fx.Node) -> Iterator[torch.fx.GraphModule]:
    """Yield the graphs that the operator of ``node`` runs."""
    for given in node.all_input_nodes:
        if given.op == "get_attr":
            graph = getattr(node.graph.owning_module, str(given.target), None)
            if isinstance(graph, torch.fx.GraphModule):
                yield graph


def owner(node: torch.fx.Node) -> str:
    """Return the name of the module whose ``forward`` made this call; empty for the root or if unknown."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]).removeprefix("L['self']").removeprefix(".") if stack else ""


def place(node: torch.fx.Node) -> str:
    """Return the owning module, with the operator if it is custom: ``blocks.0 (mylib::scan)``."""
    if not is_users_operator(node):
        return owner(node)
    return f"{owner(node)} ({operator_name(node)})" if owner(node) else operator_name(node)


def owners(nodes: Iterable[torch.fx.Node]) -> str:
    """Return a few of the places of ``nodes``; empty for the root alone."""
    names = list(dict.fromkeys(place(node) for node in nodes))
    return few(names) if any(names) else ""


def source(node: torch.fx.Node) -> tuple[str, int]:
    """Return file and line in user code, for a nested graph those of its first call; ``("", 0)`` if unknown."""
    own = stack_place(node.meta.get("stack_trace"))
    inner = (source(call) for graph in nested(node) for call in graph.graph.nodes if call.op == "call_function")
    return own if own[0] else next((line for line in inner if line[0]), own)


@cache
def _arguments(operator: Any) -> dict[str, tuple[int, Any]]:
    """Return position and default of each argument by name."""
    schema = getattr(operator, "_schema", None)
    declared = schema.arguments if schema is not None else ()
    return {argument.name: (position, argument.default_value) for position, argument in enumerate(declared)}
