"""Reading the nodes of an exported program: arguments by schema name, user's source, owning module."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_TORCH = str(Path(torch.__file__).parent)


def calls(program: ExportedProgram) -> Iterator[torch.fx.Node]:
    """Every operator call of the program, those of nested graphs (autocast regions, branches) included."""
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            yield from (node for node in module.graph.nodes if node.op == "call_function")


def argument(node: torch.fx.Node, name: str) -> Any:
    """The value that the operator of ``node`` gets for its argument ``name``; None when it has no such
    argument.
    """
    schema = getattr(node.target, "_schema", None)
    for position, declared in enumerate(schema.arguments if schema is not None else ()):
        if declared.name == name:
            if position < len(node.args):
                return node.args[position]
            return node.kwargs.get(name, declared.default_value)
    return None


def owner(node: torch.fx.Node) -> str:
    """Qualified name of the module whose ``forward`` made this call; empty for the root or when unknown."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]).removeprefix("L['self']").removeprefix(".") if stack else ""


def source(node: torch.fx.Node) -> tuple[str, int]:
    """File and line of the innermost frame outside torch; ``("", 0)`` when unknown."""
    frames = [(m["file"], int(m["line"])) for m in _FRAME.finditer(node.meta.get("stack_trace") or "")]
    users = [frame for frame in frames if not frame[0].startswith(_TORCH)]
    return (users or frames or [("", 0)])[-1]
