"""Weights that the program holds as constants: no name in its state dict reaches them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import nn
from torch.export import ExportedProgram

from pytest_exportready.analysis.module.tensor_values import view_identity
from pytest_exportready.analysis.module.unregistered_tensors import unregistered_tensors


@dataclass(frozen=True)
class FrozenWeight:
    """constant: its name in the program. place: where the module keeps it, as far as it is found.

    registered: the parameter's own name when it is an alias of one; empty for a weight that is registered nowhere.
    trained: it requires a gradient.
    """

    constant: str
    place: str
    registered: str
    trained: bool


def frozen_weights(program: ExportedProgram, module: nn.Module) -> Iterator[FrozenWeight]:
    """Every constant of ``program`` that is a parameter. ``program`` must still share its memory with ``module``."""
    names = {view_identity(parameter): name for name, parameter in module.named_parameters()}
    places: dict[object, list[str]] = {}
    trained: dict[object, bool] = {}
    for place, tensor in unregistered_tensors(module, functions=True):
        if isinstance(tensor, nn.Parameter):
            places.setdefault(view_identity(tensor), []).append(place)
            trained[view_identity(tensor)] = tensor.requires_grad
    for constant, value in program.constants.items():
        key = view_identity(value) if isinstance(value, torch.Tensor) else None
        if key is not None and (key in names or key in places):
            place = ", ".join(places.get(key, [constant]))
            yield FrozenWeight(constant, place, names.get(key, ""), trained.get(key, True))


def foreign_weights(program: ExportedProgram, parameters: Iterable[nn.Parameter]) -> Iterator[FrozenWeight]:
    """Every constant of ``program`` that is one of ``parameters``, which no module of its own has."""
    trained = {view_identity(parameter): parameter.requires_grad for parameter in parameters}
    for constant, value in program.constants.items():
        key = view_identity(value) if isinstance(value, torch.Tensor) else None
        if key is not None and key in trained:
            yield FrozenWeight(constant, constant, "", trained[key])
