"""Separate the memory of an exported program from that of the module."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from pytest_exportready.analysis.torch_internals.tensors import is_fake


def own_storage(program: ExportedProgram) -> None:
    """Copy the state and the constants of ``program``; tensors that share storage still share it afterwards."""
    copies: dict[int, Any] = {}  # of storages by address, of tensors by id
    for table in (program.state_dict, program.constants):
        for name, value in table.items():
            if isinstance(value, torch.Tensor) and not is_fake(value):
                if id(value) not in copies:
                    copies[id(value)] = _copy(value, copies)
                table[name] = copies[id(value)]


def _copy(tensor: torch.Tensor, copies: dict[int, Any]) -> torch.Tensor:
    if tensor.layout != torch.strided or tensor.is_meta or type(tensor) not in (torch.Tensor, nn.Parameter):
        copy = tensor.detach().clone()
    else:
        storage = tensor.untyped_storage()
        key = storage.data_ptr()
        if key not in copies or not key:
            copies[key] = storage.clone()  # type: ignore[no-untyped-call]
        copy = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        copy.set_(copies[key], tensor.storage_offset(), tensor.size(), tensor.stride())
    return nn.Parameter(copy, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else copy
