"""Canonical forms: equal literals, symbolic sizes, devices and tensors have equal forms."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from pytest_exportready.analysis.program.tensor_hash import tensor_digest

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_LENGTH = 16  # bytes: enough that no two graphs collide


def digest(*parts: object) -> str:
    """Return the hash of strings and nested tuples of strings."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=_LENGTH).hexdigest()


class Symbols:
    """Names for symbolic sizes, in the order of the inputs."""

    def __init__(self) -> None:
        self.names: dict[Any, Any] = {}

    def canonical(self, size: object) -> str:
        """Return a size or stride; a new symbol gets the next name."""
        if not isinstance(size, torch.SymInt):
            return str(size)
        import sympy  # type: ignore[import-untyped]

        expression = size.node.expr
        for symbol in sorted(expression.free_symbols, key=str):
            self.names.setdefault(symbol, sympy.Symbol(f"size{len(self.names)}", integer=True, positive=True))
        return str(sympy.expand(expression.xreplace(self.names)))


def canonical(value: Any, of_node: Callable[[torch.fx.Node], str], home: torch.device) -> object:
    """Return an argument as strings and tuples: with types, and exact floats.

    Args:
        of_node: Returns the form of a node.
        home: The device of the program's inputs; its index is left out.
    """
    if isinstance(value, torch.fx.Node):
        return of_node(value)
    if isinstance(value, float):
        return "float", value.hex()
    if isinstance(value, complex):
        return "complex", value.real.hex(), value.imag.hex()
    if isinstance(value, (bool, int, str, type(None))):
        return type(value).__name__, str(value)
    if isinstance(value, torch.device):
        return "device", "home" if value == home else str(value)
    if isinstance(value, slice):
        return "slice", *(canonical(part, of_node, home) for part in (value.start, value.stop, value.step))
    if isinstance(value, Mapping):
        return "dict", *((str(key), canonical(inner, of_node, home)) for key, inner in value.items())
    if isinstance(value, Sequence):
        return "list", *(canonical(inner, of_node, home) for inner in value)
    if isinstance(value, torch.Tensor):
        return "tensor", tensor_digest(value)
    return type(value).__name__, _ADDRESS.sub("", str(value))  # dtype, layout, memory format and others


def canonical_tensor(tensor: torch.Tensor, symbols: Symbols, home: torch.device) -> tuple[object, ...]:
    """Return dtype, shape, strides and device of an input."""
    strides = tuple(map(symbols.canonical, tensor.stride())) if tensor.layout == torch.strided else str(tensor.layout)
    shape = tuple(map(symbols.canonical, tensor.shape))
    return str(tensor.dtype), shape, strides, "home" if tensor.device == home else str(tensor.device)
