"""Interpretations of the baked sizes of a call: as constants, or as multiples of the batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from pytest_exportready.analysis.program.nodes import operator_name

# Names of arguments of ATen operators that are sizes.
_SIZES = frozenset(
    {"size", "sizes", "shape", "repeats", "split_size", "split_sizes", "end", "length", "N", "n", "m", "dims"}
)
_SIZE_TYPES = ("SymInt", "int", "number")
_VIEWS = ("aten::view", "aten::reshape", "aten::_unsafe_view", "aten::view_copy", "aten::_reshape_copy")


@dataclass(frozen=True)
class BakedSize:
    """One baked size of a call that is a multiple of the batch."""

    argument: int | str
    place: int  # index in a list; -1 if the argument is not a list
    factor: int  # batches


Interpretation = tuple[BakedSize, ...]


def interpretations(node: torch.fx.Node, batch: int, made: bool) -> list[Interpretation]:
    """Return every interpretation of the sizes of ``node``, the likeliest first.

    No size from the batch, one that equals it, one that is a multiple, all that equal it.

    Args:
        made: According to the source, one size comes from the batch.
    """
    sizes = list(_baked_sizes(node, batch))
    exact = [size for size in sizes if size.factor == 1]
    single: list[Interpretation] = [(one,) for one in sorted(sizes, key=lambda size: size.factor != 1)]
    together = [tuple(exact)] if len(exact) > 1 and not is_view(node) else []
    plain: list[Interpretation] = [()]
    return [*single, *plain] if made or operator_name(node) == "aten::slice" else [*plain, *single, *together]


def is_view(node: torch.fx.Node) -> bool:
    return operator_name(node) in _VIEWS


def applied(
    node: torch.fx.Node, interpretation: Interpretation, batch: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """Return ``args`` and ``kwargs`` with the sizes of ``interpretation`` replaced by ``batch(factor)``."""
    given: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
    for baked in interpretation:
        size = batch(baked.factor)
        if baked.place < 0:
            given[baked.argument] = size
        else:
            sizes = list(given[baked.argument])
            sizes[baked.place] = size
            given[baked.argument] = sizes
    return tuple(given[at] for at in range(len(args))), {name: given[name] for name in kwargs}


def keeps_rows(before: Sequence[int], after: Sequence[int], stand_in: int) -> bool:
    """Return whether a view from one shape to the other keeps the elements of every row together.

    ``stand_in`` divides only the sizes that contain the batch.
    """
    old = [at for at, size in enumerate(before) if size % stand_in == 0]
    new = [at for at, size in enumerate(after) if size % stand_in == 0]
    if len(old) != 1 or len(new) != 1:
        return not old and not new
    outer_old, outer_new = prod(before[: old[0]]), prod(after[: new[0]])
    inside_old, inside_new = before[old[0]] // stand_in, after[new[0]] // stand_in
    return any(outer_old * a == outer_new * b for a in _divisors(inside_old) for b in _divisors(inside_new))


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def _baked_sizes(node: torch.fx.Node, batch: int) -> Iterator[BakedSize]:
    schema = getattr(node.target, "_schema", None)
    for position, declared in enumerate(schema.arguments if schema is not None else ()):
        key: int | str = position if position < len(node.args) else declared.name
        if declared.name not in _SIZES or not any(kind in str(declared.real_type) for kind in _SIZE_TYPES):
            continue
        value = node.args[position] if isinstance(key, int) else node.kwargs.get(declared.name)
        many = isinstance(value, (list, tuple))
        for place, size in enumerate(value) if many else ((-1, value),):  # type: ignore[arg-type]
            if isinstance(size, int) and not isinstance(size, bool) and 0 < size < 2**40 and size % batch == 0:
                yield BakedSize(key, place, size // batch)
