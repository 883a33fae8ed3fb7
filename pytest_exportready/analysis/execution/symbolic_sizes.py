"""Read the symbolic sizes of the inputs of an exported program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from pytest_exportready.analysis.execution.resizable_dims import InputDim


def input_names(program: ExportedProgram) -> list[str]:
    """Return the names of the inputs in the order of the flat inputs of a call."""
    return [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT]


def symbolic_sizes(program: ExportedProgram) -> dict[InputDim, Any]:
    """Return the size of every dynamic dimension of the inputs as a sympy expression."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    return {
        (leaf, dim): size.node.expr
        for leaf, name in enumerate(input_names(program))
        for dim, size in enumerate(getattr(values.get(name), "shape", ()))
        # a symbol that the trace made constant is still a SymInt, but without a free symbol
        if isinstance(size, torch.SymInt) and size.node.expr.free_symbols
    }


def sizes_at(sizes: Mapping[InputDim, Any], values: Mapping[Any, int]) -> dict[InputDim, int]:
    """Return the size of every dimension that depends on the symbols in ``values`` alone."""
    return {at: int(size.subs(values)) for at, size in sizes.items() if size.free_symbols <= values.keys()}
