"""Kinds of values in the source: a tensor, a number taken from one, a known object, or unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)


@dataclass(frozen=True)
class Kind:
    """One of the kinds below, or a known object."""

    name: str


@dataclass(frozen=True, eq=False)
class Known(Kind):
    """An object that exists already: a module, an attribute of it, a function, a constant."""

    value: Any = None


TENSOR = Kind("tensor")
MASK = Kind("mask")  # a boolean tensor
LOOSE = Kind("loose")  # a tensor whose size depends on values
TENSORS = Kind("tensors")  # a list, tuple or other collection of tensors
NUMBER = Kind("number")  # of Python, taken from a tensor's values
PYTHON = Kind("python")  # sizes, flags, configuration: known while tracing
UNKNOWN = Kind("unknown")


def known(value: Any) -> Kind:
    """Return the kind of an object."""
    if isinstance(value, torch.Tensor):
        return MASK if value.dtype == torch.bool else TENSOR
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, torch.Tensor) for item in value):
        return TENSORS
    return Known("known", value)


def is_tensor(kind: Kind) -> bool:
    return kind in (TENSOR, MASK, LOOSE)


def of_values(kind: Kind) -> bool:
    """Return whether its truth value depends on tensor values."""
    return is_tensor(kind) or kind is NUMBER


def constant(kind: Kind) -> bool:
    """Return whether it is a known Python constant."""
    return isinstance(kind, Known) and isinstance(kind.value, PLAIN)


def either(first: Kind, second: Kind) -> Kind:
    """Return the kind of a value that is one or the other."""
    if first == second or (constant(first) and constant(second) and _same(first, second)):
        return first
    if all(constant(kind) or kind is PYTHON for kind in (first, second)):
        return PYTHON
    return TENSOR if is_tensor(first) and is_tensor(second) else UNKNOWN


def mixed(kinds: list[Kind]) -> Kind:
    """Return the kind of the result of arithmetic on such values."""
    for kind in (TENSOR, LOOSE, MASK, UNKNOWN, NUMBER):
        if kind in kinds:
            return kind
    return PYTHON if all(kind is PYTHON or constant(kind) for kind in kinds) else UNKNOWN


def _same(first: Kind, second: Kind) -> bool:
    assert isinstance(first, Known)
    assert isinstance(second, Known)
    return type(first.value) is type(second.value) and first.value == second.value
