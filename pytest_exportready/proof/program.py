"""An exported program that is run without consequences: what it writes to its own state is put back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.export import ExportedProgram

from pytest_exportready.module.preserve import equal_bits
from pytest_exportready.proof.truth import Call, run


class RunningProgram:
    """Runs ``exported`` again and again, each time from the state it was exported with."""

    def __init__(self, exported: ExportedProgram) -> None:
        self._module = exported.module()
        state = {**exported.constants, **exported.state_dict}
        self._state = {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}
        tensors = {id(value): value for value in self._state.values()}
        self._before = [(tensor, tensor.detach().clone()) for tensor in tensors.values()]

    def sequence(self, calls: list[Call], state: Mapping[str, torch.Tensor] | None = None) -> list[Any]:
        """Answers to ``calls``, one after the other; with other values of parameters and buffers where given."""
        try:
            with torch.no_grad():
                for name in self._state.keys() & (state or {}).keys():
                    self._state[name].copy_((state or {})[name])
            return run(self._module, calls)
        finally:
            with torch.no_grad():
                for tensor, before in self._before:
                    if not equal_bits(tensor, before):
                        tensor.copy_(before)
