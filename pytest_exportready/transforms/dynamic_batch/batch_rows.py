"""Compare programs row by row of the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node

from pytest_exportready.analysis.execution.compare import Tolerance, compare
from pytest_exportready.analysis.execution.pytree import distinct, flatten

Leaves = list[Any]


@dataclass(frozen=True)
class Rows:
    """The dimension of a value that contains the batch."""

    dim: int
    each: int  # entries per row of the batch


def rows_of(value: Any, stand_in: int) -> Rows | None:
    """Return which dimension of a value contains the batch ``stand_in``; None if none does, or several."""
    if not isinstance(value, torch.Tensor):
        return None
    dims = [dim for dim, size in enumerate(value.shape) if size and size % stand_in == 0]
    return Rows(dims[0], value.shape[dims[0]] // stand_in) if len(dims) == 1 else None


def chosen(leaves: Leaves, places: Sequence[Rows | None], rows: Sequence[int]) -> Leaves:
    """Return these rows of every value that contains the batch; other values unchanged."""
    result = []
    for leaf, place in zip(leaves, places, strict=True):
        if place is not None:
            index = [row * place.each + i for row in rows for i in range(place.each)]
            leaf = leaf.detach().index_select(place.dim, torch.tensor(index, device=leaf.device))
        result.append(leaf)
    return result


def run(module: GraphModule, leaves: Leaves) -> Leaves:
    """Return the flat outputs for flat inputs."""
    with torch.no_grad():
        outputs = Interpreter(module).run(*distinct(leaves), enable_io_processing=False)
    return [leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in flatten(outputs)[0]]


def in_batches(
    module: GraphModule, leaves: Leaves, places: Sequence[Rows | None], outputs: Sequence[Rows | None],
    batch: int, rows: Sequence[int],
) -> Leaves:  # fmt: skip
    """Return the outputs for these rows of a program that takes ``batch`` rows at a time."""
    padded = [*rows, *(list(rows) * batch)[: -len(rows) % batch]]
    parts = [
        run(module, chosen(leaves, places, padded[first : first + batch])) for first in range(0, len(padded), batch)
    ]
    joined = [
        torch.cat([part[i] for part in parts], place.dim) if place is not None else parts[0][i]
        for i, place in enumerate(outputs)
    ]
    return chosen(joined, outputs, range(len(rows)))


def difference(expected: Leaves, actual: Leaves) -> str:
    """Return what differs; empty if nothing does."""
    result = compare(expected, actual, Tolerance())
    return "" if result.agree else f"{result.where or 'the output'}: {result.problem}"


def first_difference(
    left: tuple[GraphModule, Leaves], right: tuple[GraphModule, Leaves],
    places: Mapping[str, Rows | None], rows: Sequence[tuple[int, int]],
) -> Node | None:  # fmt: skip
    """Return the first node whose value for a row differs between two runs.

    Args:
        places: The dimension of each node that contains the batch.
        rows: Pairs of row numbers to compare, of the left and the right run.
    """
    before = _node_values(*left)
    after = {node.name: value for node, value in _node_values(*right).items()}
    for node, value in before.items():
        other = after.get(node.name)
        place = places.get(node.name)
        if isinstance(value, torch.Tensor) and isinstance(other, torch.Tensor):
            ours = chosen([value], [place], [i for i, _ in rows])
            if difference(ours, chosen([other], [place], [j for _, j in rows])):
                return node
    return None


def _node_values(module: GraphModule, leaves: Leaves) -> dict[Node, Any]:
    seen: dict[Node, Any] = {}

    class Recorder(Interpreter):
        def run_node(self, node: Node) -> Any:
            result = super().run_node(node)
            if node.op == "call_function":
                seen[node] = result.detach().clone() if isinstance(result, torch.Tensor) else result
            return result

    with torch.no_grad():
        Recorder(module).run(*distinct(leaves), enable_io_processing=False)
    return seen
