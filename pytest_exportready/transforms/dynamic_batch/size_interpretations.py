"""How the baked sizes of a call can be read: as they stand, or as multiples of the batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from pytest_exportready.analysis.program.nodes import operator_name

# Arguments of ATen operators that hold sizes, by the names that their schemas have for them.
_SIZES = frozenset(
    {"size", "sizes", "shape", "repeats", "split_size", "split_sizes", "end", "length", "N", "n", "m", "dims"}
)
_SIZE_TYPES = ("SymInt", "int", "number")
_VIEWS = ("aten::view", "aten::reshape", "aten::_unsafe_view", "aten::view_copy", "aten::_reshape_copy")


@dataclass(frozen=True)
class Literal:
    """One baked size of a call: its argument, its place in a list (-1 for none), and how many batches it is."""

    argument: int | str
    place: int
    factor: int


Reading = tuple[Literal, ...]


def readings(node: torch.fx.Node, batch: int, made: bool) -> list[Reading]:
    """Every way to read the sizes of ``node``, the likeliest first: none from the batch, one that equals it, one that
    is a multiple, all those that equal it. made: the source says that one is from the batch."""
    literals = list(_literals(node, batch))
    exact = [literal for literal in literals if literal.factor == 1]
    single: list[Reading] = [(one,) for one in sorted(literals, key=lambda literal: literal.factor != 1)]
    together = [tuple(exact)] if len(exact) > 1 and not is_view(node) else []
    plain: list[Reading] = [()]
    return [*single, *plain] if made or operator_name(node) == "aten::slice" else [*plain, *single, *together]


def is_view(node: torch.fx.Node) -> bool:
    return operator_name(node) in _VIEWS


def applied(node: torch.fx.Node, reading: Reading, batch: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """``args`` and ``kwargs`` with the sizes of ``reading`` made from ``batch(factor)``."""
    given: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
    for literal in reading:
        size = batch(literal.factor)
        if literal.place < 0:
            given[literal.argument] = size
        else:
            sizes = list(given[literal.argument])
            sizes[literal.place] = size
            given[literal.argument] = sizes
    return tuple(given[at] for at in range(len(args))), {name: given[name] for name in kwargs}


def keeps_rows(before: Sequence[int], after: Sequence[int], stand_in: int) -> bool:
    """Whether a view from one shape to the other leaves every row of the batch the elements that it had.

    ``stand_in`` divides the sizes that hold the batch, and no other.
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


def _literals(node: torch.fx.Node, batch: int) -> Iterator[Literal]:
    schema = getattr(node.target, "_schema", None)
    for position, declared in enumerate(schema.arguments if schema is not None else ()):
        key: int | str = position if position < len(node.args) else declared.name
        if declared.name not in _SIZES or not any(kind in str(declared.real_type) for kind in _SIZE_TYPES):
            continue
        value = node.args[position] if isinstance(key, int) else node.kwargs.get(declared.name)
        many = isinstance(value, (list, tuple))
        for place, size in enumerate(value) if many else ((-1, value),):  # type: ignore[arg-type]
            if isinstance(size, int) and not isinstance(size, bool) and 0 < size < 2**40 and size % batch == 0:
                yield Literal(key, place, size // batch)
