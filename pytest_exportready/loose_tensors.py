"""Tensors kept as plain attributes of modules: neither parameter nor buffer, so they do not follow
``.to()``.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import nn

from pytest_exportready.torch_internals import forward_hooks, plain_attributes


@dataclass(frozen=True)
class LooseTensor:
    """One such tensor.

    name: qualified, with its place in a list or dict (``blocks.0.table[2]``). attribute:
    ``blocks.0.table``.
    assigned_in_forward: the module's own ``forward`` assigns the attribute, so it may be made anew in each
    call.
    """

    name: str
    attribute: str
    tensor: torch.Tensor
    assigned_in_forward: bool


def loose_tensors(model: nn.Module) -> list[LooseTensor]:
    """Every tensor that is an attribute of a module, or one level inside a list, tuple or dict that is.

    Left out: aliases of parameters and buffers (the same object or the same storage), and tensors that a
    pre-forward hook recomputes from parameters (old ``weight_norm``, ``spectral_norm``, pruning).
    """
    state = [*model.parameters(), *model.buffers()]
    objects, storages = {id(t) for t in state}, {_storage(t) for t in state} - {None}
    found = []
    for prefix, module in model.named_modules():
        for attribute, value in _attributes(module).items():
            in_forward = _assigns(type(module), attribute)
            for place, tensor in _tensors(value):
                if (
                    id(tensor) in objects
                    or _storage(tensor) in storages
                    or _recomputed(module, attribute, tensor)
                ):
                    continue
                name = f"{prefix}.{attribute}".removeprefix(".")
                found.append(LooseTensor(name + place, name, tensor, in_forward))
    return found


def _attributes(module: nn.Module) -> dict[str, Any]:
    """Attributes of the instance and, behind them, of its classes below ``nn.Module``."""
    kinds = type(module).__mro__
    of_class = [vars(kind) for kind in kinds[: kinds.index(nn.Module)]]
    return {k: v for names in reversed([plain_attributes(module), *of_class]) for k, v in names.items()}


def _tensors(value: object) -> Iterator[tuple[str, torch.Tensor]]:
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


def _storage(tensor: torch.Tensor) -> int | None:
    """Address of the memory behind ``tensor``; None when it has none of its own (meta, fake, sparse, ...)."""
    try:
        return tensor.untyped_storage().data_ptr() or None
    except (NotImplementedError, RuntimeError, ValueError):
        return None


def _assigns(kind: type, attribute: str) -> bool:
    forward = getattr(kind, "forward", None)
    return isinstance(forward, FunctionType) and _stores(forward.__code__, attribute)


def _stores(code: CodeType, attribute: str) -> bool:
    return attribute in code.co_names and any(
        i.opname == "STORE_ATTR" and i.argval == attribute for i in dis.get_instructions(code)
    )
