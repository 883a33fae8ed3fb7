"""Choose the sizes at which a program with dynamic dimensions is compared with the eager module."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch.export import ExportedProgram

from pytest_exportready.analysis.execution.dynamic_shapes import Dynamic
from pytest_exportready.analysis.execution.resizable_dims import InputDim
from pytest_exportready.analysis.execution.symbolic_sizes import sizes_at
from pytest_exportready.analysis.torch_internals.programs import program_guards

_LARGEST = 2**22  # elements of one input at another size
_MOST_TRIED = 16  # sizes for one symbol
_NUMBER = re.compile(r"\b\d+\b")
_INDEX = re.compile(r"\[[^\[\]]*\]")


class Resize(NamedTuple):
    """One dimension at another size, and the sizes of all dimensions that follow it."""

    dim: Dynamic
    size: int
    sizes: dict[InputDim, int]


def other_sizes(
    program: ExportedProgram, leaves: list[Any], dims: list[Dynamic], symbols: Mapping[InputDim, Any]
) -> Iterator[Resize]:
    """Yield the sizes to compare.

    Each symbol at 1, 2, odd and larger sizes and around every bound in the guards of the program; then all symbols
    together; then dimensions that only the program ties, one by one.
    """
    groups = {
        symbol: [d for d in dims if symbol in symbols[d.leaf, d.dim].free_symbols]
        for dim in dims
        for symbol in sorted(symbols[dim.leaf, dim.dim].free_symbols, key=str)
    }
    together: dict[Any, int] = {}
    for symbol, group in groups.items():
        own = next((d for d in group if symbols[d.leaf, d.dim] == symbol), group[0])
        for value in _candidates(program, leaves, symbol, own, symbols):
            sizes = sizes_at(symbols, {symbol: value})
            if _allowed(group, sizes) and sizes[own.leaf, own.dim] != leaves[own.leaf].shape[own.dim]:
                if value > 2:
                    together.setdefault(symbol, value + len(together))
                yield Resize(own, sizes[own.leaf, own.dim], sizes)
    if len(together) > 1:
        sizes = sizes_at(symbols, together)
        if _allowed(dims, sizes):
            yield Resize(dims[0], sizes[dims[0].leaf, dims[0].dim], sizes)
    for d in (d for group in groups.values() if len(group) > 1 for d in group if not d.named):
        size = leaves[d.leaf].shape[d.dim] + 1
        if _allowed([d], {(d.leaf, d.dim): size}):
            yield Resize(d, size, {(d.leaf, d.dim): size})


def affordable(leaf: torch.Tensor, dim: int, size: int) -> bool:
    """Return whether ``leaf`` is not too large with dimension ``dim`` at ``size``."""
    return size * leaf.numel() // max(leaf.shape[dim], 1) <= max(_LARGEST, 4 * leaf.numel())


def tied(symbols: Mapping[InputDim, Any], leaves: list[Any], groups: list[list[InputDim]]) -> dict[InputDim, Any]:
    """Return ``symbols`` with one expressed by another where the eager module accepts both in proportion only."""
    alone = {group[0] for group in groups if len(group) == 1}
    result = dict(symbols)
    for group in groups:
        dims = sorted((at for at in group if at in symbols), key=lambda at: leaves[at[0]].shape[at[1]])
        for at in dims[1:]:
            if at not in alone and symbols[at].is_symbol and symbols[dims[0]].is_symbol:
                leaf, dim = dims[0]
                result[at] = symbols[leaf, dim] * (leaves[at[0]].shape[at[1]] // leaves[leaf].shape[dim])
    return result


def _candidates(
    program: ExportedProgram, leaves: list[Any], symbol: Any, own: Dynamic, symbols: Mapping[InputDim, Any]
) -> list[int]:
    example = leaves[own.leaf].shape[own.dim]
    dims = [at for at, expression in symbols.items() if expression == symbol]
    guards = [g for g in program_guards(program) if any(f"size()[{dim}]" in g for _, dim in dims)]
    known = {int(number) for guard in guards for number in _NUMBER.findall(_INDEX.sub("", guard))}
    bounds = program.range_constraints.get(symbol)
    known |= {int(b) for b in (bounds.lower, bounds.upper) if str(b).isdecimal()} if bounds is not None else set()
    around = {n + step for n in known for step in (-1, 0, 1)}
    sizes = {1, 2, 3, 7, 2 * example + 1, own.smallest, own.largest} | around
    per_step = max(
        leaves[leaf].numel() // max(leaves[leaf].shape[dim], 1) for leaf, dim in dims or [(own.leaf, own.dim)]
    )
    limit = max(_LARGEST, leaves[own.leaf].numel() * 4)
    return [n for n in sorted(sizes) if n > 0 and n * per_step <= limit][:_MOST_TRIED]


def _allowed(dims: list[Dynamic], sizes: Mapping[InputDim, int]) -> bool:
    return all(d.smallest <= sizes.get((d.leaf, d.dim), d.smallest) <= d.largest for d in dims)
