"""One canonical text for equal things: literals, sizes with symbols, devices, the bytes of tensors."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from pytest_exportready.analysis.program.tensor_hash import tensor_digest

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_LENGTH = 16  # bytes: two graphs of all that are ever made are not taken for one


def digest(*parts: object) -> str:
    """Hash of ``parts``: strings, and nested tuples of them."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=_LENGTH).hexdigest()


class Symbols:
    """Names for symbolic sizes, in the order in which the inputs show them."""

    def __init__(self) -> None:
        self.names: dict[Any, Any] = {}

    def spell(self, size: object) -> str:
        """A size or stride; a new symbol gets the next name."""
        if not isinstance(size, torch.SymInt):
            return str(size)
        import sympy  # type: ignore[import-untyped]

        expression = size.node.expr
        for symbol in sorted(expression.free_symbols, key=str):
            self.names.setdefault(symbol, sympy.Symbol(f"size{len(self.names)}", integer=True, positive=True))
        return str(sympy.expand(expression.xreplace(self.names)))


def spell(value: Any, of_node: Callable[[torch.fx.Node], str], home: torch.device) -> object:
    """``value`` of an argument as strings and tuples: typed, floats exact, nodes as ``of_node`` has them.

    home: the device of the program's inputs. On it, one device is as good as another of its type.
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
        return "slice", *(spell(part, of_node, home) for part in (value.start, value.stop, value.step))
    if isinstance(value, Mapping):
        return "dict", *((str(key), spell(inner, of_node, home)) for key, inner in value.items())
    if isinstance(value, Sequence):
        return "list", *(spell(inner, of_node, home) for inner in value)
    if isinstance(value, torch.Tensor):
        return "tensor", tensor_digest(value)
    return type(value).__name__, _ADDRESS.sub("", str(value))  # dtype, layout, memory format, what is left


def spell_tensor(tensor: torch.Tensor, symbols: Symbols, home: torch.device) -> tuple[object, ...]:
    """What a program states of an input: dtype, shape, strides, device."""
    strides = tuple(map(symbols.spell, tensor.stride())) if tensor.layout == torch.strided else str(tensor.layout)
    shape = tuple(map(symbols.spell, tensor.shape))
    return str(tensor.dtype), shape, strides, "home" if tensor.device == home else str(tensor.device)
