"""Where a tensor is kept in a module besides its parameters and buffers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from pytest_exportready.torch_internals import plain_attributes


def unregistered_tensors(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor in plain attributes with its qualified name: in lists, tuples and dicts, and in modules that are
    kept there and so are no children (``layers[0].weight``)."""
    registered = {id(module) for module in model.modules()}
    for prefix, module in model.named_modules():
        for attribute, value in plain_attributes(module).items():
            yield from _tensors(f"{prefix}.{attribute}".removeprefix("."), value, registered)


def _tensors(name: str, value: Any, registered: set[int]) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, nn.Module) and id(value) not in registered:
        for inner, tensor in [*value.named_parameters(), *value.named_buffers()]:
            yield f"{name}.{inner}", tensor
    elif isinstance(value, (list, tuple)):
        for position, entry in enumerate(value):
            yield from _tensors(f"{name}[{position}]", entry, registered)
    elif isinstance(value, dict):
        for key, entry in value.items():
            yield from _tensors(f"{name}[{key!r}]", entry, registered)
