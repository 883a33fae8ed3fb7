"""Where a tensor is kept in a module besides its parameters and buffers."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from pytest_exportready.module.containers import inside, users_packages
from pytest_exportready.torch_internals.modules import plain_attributes


def unregistered_tensors(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor in plain attributes with its qualified name: in lists, tuples, dicts and objects of the user's, and
    in modules that are kept there and so are no children (``layers[0].weight``)."""
    registered = {id(module) for module in model.modules()}
    packages = users_packages(model)
    for prefix, module in model.named_modules():
        for attribute, value in plain_attributes(module).items():
            for place, found in inside(value, packages):
                name = f"{prefix}.{attribute}{place}".removeprefix(".")
                if isinstance(found, torch.Tensor):
                    yield name, found
                elif id(found) not in registered:
                    for inner, tensor in [*found.named_parameters(), *found.named_buffers()]:
                        yield f"{name}.{inner}", tensor
