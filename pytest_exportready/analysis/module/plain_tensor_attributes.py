"""Find tensors in plain attributes of modules: neither parameters nor buffers, so ``.to()`` does not move them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import CodeType, FunctionType

import torch
from torch import nn

from pytest_exportready.analysis.module.nested_values import inside, user_packages
from pytest_exportready.analysis.module.tensor_values import storage_address
from pytest_exportready.analysis.source.bytecode import (
    attributes_read,
    attributes_written,
    methods,
    reached_from_forward,
    read_raw,
)
from pytest_exportready.analysis.torch_internals.hooks import forward_hooks
from pytest_exportready.analysis.torch_internals.modules import plain_attributes

_MOVERS = frozenset({"to", "type_as", "cuda"})
_OWN_MOVERS = ("_apply", "to", "cuda")
_PLAIN = (FunctionType, staticmethod, classmethod, property, bool, int, float, str, type(None))


@dataclass(frozen=True, eq=False)
class PlainTensor:
    """One such tensor."""

    name: str  # qualified, with its place in a list or dict: ``blocks.0.table[2]``
    attribute: str  # qualified: ``blocks.0.table``
    tensor: torch.Tensor
    handled: bool
    """Whether ``forward`` recomputes it, may move it or never reads it, or the class moves it in ``to``."""


def plain_tensor_attributes(model: nn.Module) -> list[PlainTensor]:
    """Return every tensor that is an attribute of a module, or inside a list, tuple, dict or user object that is.

    Aliases of parameters and buffers (the same object or storage) are left out, and so are tensors that a pre-forward
    hook recomputes from parameters (old ``weight_norm``, ``spectral_norm``, pruning).
    """
    candidates = [
        (f"{prefix}.{attribute}".removeprefix("."), attribute, place, tensor)
        for prefix, module, attribute, place, tensor in _attributes(model)
        if not _recomputed(module, attribute, tensor)
    ]
    state = [*model.parameters(), *model.buffers()] if candidates else []
    objects, storages = {id(t) for t in state}, {storage_address(t) for t in state} - {0}
    found = [
        candidate
        for candidate in candidates
        if id(candidate[-1]) not in objects and storage_address(candidate[-1]) not in storages
    ]
    kinds = {type(module) for module in model.modules()} if found else set()
    reached = [code for kind in kinds for code in reached_from_forward(kind)]
    movers = [code for kind in kinds for name, code in methods(kind).items() if name in _OWN_MOVERS]
    return [
        PlainTensor(
            name + place,
            name,
            tensor,
            _handled(reached, attribute, bool(place)) or any(attribute in attributes_read(code) for code in movers),
        )
        for name, attribute, place, tensor in found
    ]


def recomputed_tensors(model: nn.Module) -> list[torch.Tensor]:
    """Return the plain tensor attributes that a pre-forward hook recomputes from parameters before they are read."""
    return [tensor for _, module, name, _, tensor in _attributes(model) if _recomputed(module, name, tensor)]


def _attributes(model: nn.Module) -> Iterator[tuple[str, nn.Module, str, str, torch.Tensor]]:
    """Yield ``(module's name, module, attribute, place inside it, tensor)``, with attributes of the class."""
    packages = user_packages(model)
    for prefix, module in model.named_modules():
        own = plain_attributes(module)
        kind: type = type(module)
        of_class = {name: vars(base)[name] for base, name in _class_attributes(kind) if name not in own}
        for attribute, value in {**own, **of_class}.items():
            if type(value) not in _PLAIN:
                for place, tensor in inside(value, packages):
                    if isinstance(tensor, torch.Tensor):
                        yield prefix, module, attribute, place, tensor


@cache
def _class_attributes(kind: type) -> list[tuple[type, str]]:
    """Return the attributes of a module class that may be tensors, and the classes that define them."""
    bases = kind.__mro__[: kind.__mro__.index(nn.Module)]
    found = {n: base for base in reversed(bases) for n, value in vars(base).items() if type(value) not in _PLAIN}
    return [(base, name) for name, base in found.items() if name in vars(base)]


def _recomputed(module: nn.Module, attribute: str, tensor: torch.Tensor) -> bool:
    if not forward_hooks(module):
        return False
    sources = {name for name, _ in module.named_parameters(recurse=False)}
    derived = f"{attribute}_orig" in sources or {f"{attribute}_g", f"{attribute}_v"} <= sources
    return derived or not tensor.is_leaf


def _handled(reached: list[CodeType], attribute: str, inside: bool) -> bool:
    if any(attribute in attributes_written(code) for code in reached):
        return True
    readers = [code for code in reached if attribute in attributes_read(code)]
    return all(_moves(code, attribute, inside) for code in readers)


def _moves(code: CodeType, attribute: str, inside: bool) -> bool:
    """Return whether ``code`` may move what it reads from ``attribute``, or from inside of it, to a device."""
    named = attributes_read(code)
    if "device" in named or (inside and named & _MOVERS):
        return True
    return not inside and not read_raw(code, attribute, _MOVERS)
