"""Which parameters and buffers of its state dict a program reads."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram

_NO_MATTER = "num_batches_tracked"  # of BatchNorm: counts training steps


def unread_state(program: ExportedProgram) -> list[str]:
    """Names in the state dict that no operator reads, nor an alias of theirs (tied weights)."""
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    specs = program.graph_signature.input_specs
    read = {str(spec.target) for spec in specs if spec.target and placeholders[_name(spec)].users}
    memory = {_memory(program.state_dict[name]) for name in read & program.state_dict.keys()} - {None}
    return [
        name
        for name, tensor in program.state_dict.items()
        if name not in read and _memory(tensor) not in memory and name.rpartition(".")[2] != _NO_MATTER
    ]


def _name(spec: object) -> str:
    return str(spec.arg.name)  # type: ignore[attr-defined]


def _memory(tensor: torch.Tensor) -> int | None:
    if tensor.layout != torch.strided or tensor.is_meta:
        return None
    return tensor.untyped_storage().data_ptr() or None
