"""Parameters and buffers in its state dict that a program does not read."""

from __future__ import annotations

from torch.export import ExportedProgram

from pytest_exportready.analysis.module.tensor_values import storage_address

_COUNTER = "num_batches_tracked"  # of BatchNorm: counts training steps


def unread_state(program: ExportedProgram) -> list[str]:
    """Return names in the state dict that no operator reads, directly or as an alias (tied weights)."""
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    specs = program.graph_signature.input_specs
    read = {str(spec.target) for spec in specs if spec.target and placeholders[_name(spec)].users}
    memory = {storage_address(program.state_dict[name]) for name in read & program.state_dict.keys()} - {0}
    return [
        name
        for name, tensor in program.state_dict.items()
        if name not in read and storage_address(tensor) not in memory and name.rpartition(".")[2] != _COUNTER
    ]


def _name(spec: object) -> str:
    return str(spec.arg.name)  # type: ignore[attr-defined]
