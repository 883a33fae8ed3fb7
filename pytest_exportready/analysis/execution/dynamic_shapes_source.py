"""Write the ``dynamic_shapes`` argument for the dimensions in which a program is dynamic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.dynamic_shapes import arguments
from pytest_exportready.analysis.execution.pytree import children, flatten
from pytest_exportready.analysis.execution.resizable_dims import InputDim

_LARGEST = 2**31


def dynamic_shapes_source(
    module: nn.Module,
    call: Call,
    program: ExportedProgram,
    symbols: Mapping[InputDim, Any],
    ran: Mapping[InputDim, int],
) -> str:
    """Return source such as ``dynamic_shapes={"x": {0: Dim("batch", min=1)}}``.

    Sizes that are a linear function of another are written as such (``2*batch``); other ties are left to torch.

    Args:
        symbols: the symbolic size of each dimension.
        ran: the smallest size at which each dimension was run.
    """
    names: dict[Any, str] = {}
    for place, expression in symbols.items():
        for symbol in sorted(expression.free_symbols, key=str):
            alone = next((at for at, other in symbols.items() if other == symbol), place)
            names.setdefault(symbol, _named(alone, names, program, symbol, ran))
    texts = {place: _written(expression, names) for place, expression in symbols.items()}
    first, entries = 0, []
    for name, value in _in_order(module, call):
        entries.append(f'"{name}": {_mirror(value, first, texts)}')
        first += len(flatten(value)[0])
    return f"dynamic_shapes={{{', '.join(entries)}}}"


def _in_order(module: nn.Module, call: Call) -> list[tuple[str, Any]]:
    """Return the inputs by name, in the order of their leaves."""
    named = arguments(module, call)
    positional = [name for name in named if name not in call[1]]
    return [(name, named[name]) for name in [*positional, *call[1]]]


def _named(
    place: InputDim, names: Mapping[Any, str], program: ExportedProgram, symbol: Any, ran: Mapping[InputDim, int]
) -> str:
    taken = " ".join(names.values())
    wish = "batch" if place[1] == 0 else f"size{place[1]}"
    name = wish if f'"{wish}"' not in taken else f"{wish}_{place[0]}"
    bounds = program.range_constraints.get(symbol)
    high = str(bounds.upper) if bounds is not None else ""
    largest = f", max={high}" if high.isdecimal() and int(high) < _LARGEST else ""
    return f'Dim("{name}", min={ran.get(place, 2)}{largest})'


def _written(expression: Any, names: Mapping[Any, str]) -> str:
    """Return a Dim, or a linear function of one, which is all that torch accepts; otherwise ``Dim.AUTO``."""
    symbols = sorted(expression.free_symbols, key=str)
    if len(symbols) != 1:
        return "Dim.AUTO"
    symbol = symbols[0]
    factor, rest = expression.coeff(symbol), expression.subs(symbol, 0)
    if str(factor * symbol + rest) != str(expression) or not (factor.is_integer and rest.is_integer):
        return "Dim.AUTO"
    text = names[symbol] if factor == 1 else f"{factor}*{names[symbol]}"
    return text if rest == 0 else f"{text} + {rest}" if rest > 0 else f"{text} - {-rest}"


def _mirror(value: Any, first: int, texts: Mapping[InputDim, str]) -> str:
    if isinstance(value, torch.Tensor):
        dims = [f"{dim}: {texts[first, dim]}" for dim in range(value.dim()) if (first, dim) in texts]
        return f"{{{', '.join(dims)}}}" if dims else "None"
    parts, spec = children(value)
    if spec.is_leaf():
        return "None"
    written = []
    for part in parts:
        written.append(_mirror(part, first, texts))
        first += len(flatten(part)[0])
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key!r}: {text}' for key, text in zip(value, written, strict=True))}}}"
    return f"({', '.join(written)},)" if isinstance(value, tuple) else f"[{', '.join(written)}]"
