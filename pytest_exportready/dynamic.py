"""Which dimensions the user declared dynamic, and how large they may be."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.export import Dim

from pytest_exportready.case import CaseError, CaseOptions
from pytest_exportready.pytree import flatten, unflatten
from pytest_exportready.truth import Call

UNBOUNDED = 2**31


@dataclass(frozen=True)
class Dynamic:
    """One dimension declared dynamic: leaf number and dimension, how to name it, the sizes the user allows."""

    leaf: int
    dim: int
    where: str
    smallest: int
    largest: int


def dynamic_shapes(module: nn.Module, call: Call, options: CaseOptions) -> Any:
    """The ``dynamic_shapes`` argument of ``torch.export.export`` for a case. Raises CaseError when there is no batch."""
    if options.dynamic_batch:
        return _batch_shapes(module, call)
    spec = options.dynamic_shapes
    return spec.dynamic_shapes(module, *call) if hasattr(spec, "dynamic_shapes") else spec


def _batch_shapes(module: nn.Module, call: Call) -> Any:
    tensors = [leaf for leaf in flatten(call)[0] if isinstance(leaf, torch.Tensor) and leaf.dim()]
    if not tensors:
        raise CaseError("dynamic_batch=True, but no example input is a tensor with a dimension 0")
    size, batch = tensors[0].shape[0], Dim("batch", min=1)

    def shape(leaf: Any) -> Any:
        return {0: batch} if isinstance(leaf, torch.Tensor) and leaf.dim() and leaf.shape[0] == size else None

    return tuple(_mirrored(shape, value) for value in arguments(module, call).values())


def _mirrored(shape: Any, value: Any) -> Any:
    leaves, spec = flatten(value)
    return unflatten([shape(leaf) for leaf in leaves], spec)


def arguments(module: nn.Module, call: Call) -> dict[str, Any]:
    """The inputs by parameter name of ``forward``, in its order, as torch.export matches them with dynamic_shapes."""
    args, kwargs = call
    return dict(inspect.signature(module.forward).bind(*args, **kwargs).arguments)


def declared(module: nn.Module, call: Call, spec: Any) -> list[Dynamic]:
    """Every dimension that ``spec`` (torch.export's form) leaves dynamic, by leaf of ``call``."""
    position = {id(leaf): i for i, leaf in reversed(list(enumerate(flatten(call)[0])))}
    named = arguments(module, call)
    found: list[Dynamic] = []

    def walk(where: str, entry: Any, value: Any) -> None:
        if entry is None:
            return
        if isinstance(value, torch.Tensor):
            dims = entry.items() if isinstance(entry, Mapping) else enumerate(entry)
            for dim, wanted in dims:
                if wanted is None or isinstance(wanted, int) or _is_static(wanted):
                    continue
                low, high = getattr(wanted, "min", None), getattr(wanted, "max", None)
                largest = UNBOUNDED if high is None or str(high) == "int_oo" else int(high)
                found.append(Dynamic(position[id(value)], dim, f"{where}.shape[{dim}]", max(int(low or 0), 1), largest))
        elif isinstance(value, Mapping):
            for key in value:
                if isinstance(entry, Mapping) and key in entry:
                    walk(f"{where}[{key!r}]", entry[key], value[key])
        elif isinstance(value, (list, tuple)):
            for i, (part, item) in enumerate(zip(entry, value, strict=False)):
                walk(f"{where}[{i}]", part, item)

    if isinstance(spec, Mapping):
        inner = next((v for v in named.values() if isinstance(v, Mapping) and set(spec) <= set(v)), {})
        for name, entry in spec.items():
            if name in named or name in inner:
                walk(name, entry, named.get(name, inner.get(name)))
    elif spec is not None:
        for (name, value), entry in zip(named.items(), spec, strict=False):
            walk(name, entry, value)
    return found


def _is_static(wanted: Any) -> bool:
    return "STATIC" in str(wanted)
