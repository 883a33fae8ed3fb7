"""Weights that a program contains as constants, outside of its state dict."""

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
    """A constant of a program that is a parameter."""

    constant: str  # its name in the program
    place: str  # where the module keeps it, if found
    registered: str  # name of the parameter that it is an alias of; empty if it is not registered
    trained: bool  # it requires a gradient


def frozen_weights(program: ExportedProgram, module: nn.Module) -> Iterator[FrozenWeight]:
    """Yield every constant of ``program`` that is a parameter. The program must share memory with ``module``."""
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
    """Yield every constant of ``program`` that is one of ``parameters``, which belong to no module of the model."""
    trained = {view_identity(parameter): parameter.requires_grad for parameter in parameters}
    for constant, value in program.constants.items():
        key = view_identity(value) if isinstance(value, torch.Tensor) else None
        if key is not None and key in trained:
            yield FrozenWeight(constant, constant, "", trained[key])
