"""Tensors kept as plain attributes of modules: no parameters, no buffers, so they do not follow ``.to()``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
from torch import nn

from pytest_exportready.module.bytecode import attributes_read, attributes_written, reached_from_forward, read_raw
from pytest_exportready.module.readable import readable
from pytest_exportready.torch_internals import forward_hooks, plain_attributes

_MOVERS = frozenset({"to", "type_as", "cuda"})


@dataclass(frozen=True, eq=False)
class LooseTensor:
    """One such tensor.

    name: qualified, with its place in a list or dict (``blocks.0.table[2]``). attribute: ``blocks.0.table``.
    handled: the code that ``forward`` reaches makes it anew, may move it by hand, or never reads it.
    """

    name: str
    attribute: str
    tensor: torch.Tensor
    handled: bool


def loose_tensors(model: nn.Module) -> list[LooseTensor]:
    """Every tensor that is an attribute of a module, or one level inside a list, tuple or dict that is.

    Left out: aliases of parameters and buffers (the same object or the same storage), and tensors that a
    pre-forward hook recomputes from parameters (old ``weight_norm``, ``spectral_norm``, pruning).
    """
    state = [*model.parameters(), *model.buffers()]
    objects, storages = {id(t) for t in state}, {_storage(t) for t in state} - {None}
    found = [
        (f"{prefix}.{attribute}".removeprefix("."), attribute, place, tensor)
        for prefix, module, attribute, place, tensor in _attributes(model)
        if id(tensor) not in objects and _storage(tensor) not in storages
        if not _recomputed(module, attribute, tensor)
    ]
    kinds = {type(module) for module in model.modules()} if found else set()
    reached = [code for kind in kinds for code in reached_from_forward(kind)]
    return [
        LooseTensor(name + place, name, tensor, _handled(reached, attribute, bool(place)))
        for name, attribute, place, tensor in found
    ]


def recomputed_tensors(model: nn.Module) -> list[torch.Tensor]:
    """Plain tensor attributes that a pre-forward hook makes anew from parameters before they are read."""
    return [tensor for _, module, name, _, tensor in _attributes(model) if _recomputed(module, name, tensor)]


def _attributes(model: nn.Module) -> Iterator[tuple[str, nn.Module, str, str, torch.Tensor]]:
    """``(module's name, module, attribute, place inside it, tensor)``, attributes of the class included."""
    for prefix, module in model.named_modules():
        kinds = type(module).__mro__[: type(module).__mro__.index(nn.Module)]
        own = plain_attributes(module)
        for names in (own, *map(vars, kinds)):
            for attribute, value in names.items():
                if names is own or attribute not in own:
                    for place, tensor in _tensors(value):
                        yield prefix, module, attribute, place, tensor


def _tensors(value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield "", value
    elif isinstance(value, (list, tuple)):
        yield from ((f"[{i}]", entry) for i, entry in enumerate(value) if isinstance(entry, torch.Tensor))
    elif isinstance(value, dict):
        yield from ((f"[{k!r}]", entry) for k, entry in value.items() if isinstance(entry, torch.Tensor))


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
    """Whether ``code`` may move what it reads from ``attribute``, or from inside of it, to a device."""
    named = attributes_read(code)
    if "device" in named or (inside and named & _MOVERS):
        return True
    return not inside and not read_raw(code, attribute, _MOVERS)


def _storage(tensor: torch.Tensor) -> int | None:
    """Address of the memory behind ``tensor``; None when it has none of its own (meta, fake, sparse ...)."""
    if not readable(tensor):
        return None
    try:
        return tensor.untyped_storage().data_ptr() or None
    except (NotImplementedError, RuntimeError, ValueError):
        return None
