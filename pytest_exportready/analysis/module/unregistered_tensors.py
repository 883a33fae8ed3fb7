"""Find tensors that a module has in addition to its parameters and buffers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from pytest_exportready.analysis.module.nested_values import inside, user_packages
from pytest_exportready.analysis.source.bytecode import globals_read, reached_from_forward
from pytest_exportready.analysis.torch_internals.modules import plain_attributes


def unregistered_tensors(model: nn.Module, *, functions: bool = False) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield every tensor in plain attributes with its qualified name.

    Also in lists, tuples, dicts and user objects, and in modules there, which are not children (``layers[0].weight``).

    Args:
        functions: Also in closures and arguments of functions, and in globals that forward reads (``HEAD.weight``).
    """
    registered = {id(module) for module in model.modules()}
    packages = user_packages(model)
    for prefix, value in [*_attributes(model), *(_globals(model) if functions else ())]:
        for place, found in inside(value, packages, functions):
            if isinstance(found, torch.Tensor):
                yield f"{prefix}{place}", found
            elif id(found) not in registered:
                for inner, tensor in [*found.named_parameters(), *found.named_buffers()]:
                    yield f"{prefix}{place}.{inner}", tensor


def _attributes(model: nn.Module) -> Iterator[tuple[str, Any]]:
    for prefix, module in model.named_modules():
        for attribute, value in plain_attributes(module).items():
            yield f"{prefix}.{attribute}".removeprefix("."), value


def _globals(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield the globals that code reached from ``forward`` reads; functions are not state."""
    for kind in {type(module) for module in model.modules()}:
        if not kind.__module__.startswith("torch."):
            known = getattr(kind.forward, "__globals__", {})
            for name in sorted(set().union(*map(globals_read, reached_from_forward(kind)))):
                if isinstance(known.get(name), (torch.Tensor, nn.Module, list, tuple, dict)):
                    yield name, known[name]
