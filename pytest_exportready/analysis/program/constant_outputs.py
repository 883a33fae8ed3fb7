"""Outputs of a program that do not depend on its inputs."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind


def outputs_without_inputs(program: ExportedProgram) -> tuple[list[int], int]:
    """Return the flat positions of output tensors that depend on no user input, and the number of output tensors."""
    signature = program.graph_signature
    nodes = {node.name: node for node in program.graph.nodes}
    inputs = {spec.arg.name for spec in signature.input_specs if spec.kind == InputKind.USER_INPUT}
    reached = _reached(nodes[name] for name in inputs if name in nodes)
    results = [spec.arg for spec in signature.output_specs if spec.kind == OutputKind.USER_OUTPUT]
    tensors = [
        (at, arg.name) for at, arg in enumerate(results) if isinstance(arg, torch.export.graph_signature.TensorArgument)
    ]
    return [at for at, name in tensors if name in nodes and nodes[name] not in reached], len(tensors)


def _reached(start: Iterable[torch.fx.Node]) -> set[torch.fx.Node]:
    """Return the nodes that depend on ``start`` through results or in-place writes."""
    reached: set[torch.fx.Node] = set()
    pending = list(start)
    while pending:
        node = pending.pop()
        if node not in reached:
            reached.add(node)
            pending += node.users
            schema = getattr(node.target, "_schema", None)
            if schema is not None and schema.is_mutable:
                pending += _bases(node)
    return reached


def _bases(node: torch.fx.Node) -> list[torch.fx.Node]:
    """Return what ``node`` may write: its first input and all that it is a view of."""
    bases = node.all_input_nodes[:1]
    while bases and bases[-1].all_input_nodes:
        bases.append(bases[-1].all_input_nodes[0])
    return bases
