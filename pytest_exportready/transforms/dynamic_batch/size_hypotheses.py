"""Which baked sizes stem from the batch: the graph run at a stand-in batch, under every reading that still fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node, map_arg

from pytest_exportready.analysis.execution.pytree import flatten
from pytest_exportready.analysis.execution.silence import silent
from pytest_exportready.analysis.torch_internals.tensors import fake_mode
from pytest_exportready.case.sanitize import exception_text
from pytest_exportready.transforms.dynamic_batch.batch_constants import makes_batch
from pytest_exportready.transforms.dynamic_batch.errors import FROM_SOURCE, NotBatchDynamic
from pytest_exportready.transforms.dynamic_batch.rewriting import region
from pytest_exportready.transforms.dynamic_batch.rnn_states import states_fit
from pytest_exportready.transforms.dynamic_batch.size_interpretations import (
    Reading,
    applied,
    is_view,
    keeps_rows,
    readings,
)

_MOST = 12  # worlds kept for one node
_PRIMES = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61)


@dataclass(frozen=True)
class World:
    """What a node gives (a fake value at the stand-in batch) under these readings of the sizes above it."""

    readings: Mapping[Node, Reading]
    value: Any


def stand_in(module: GraphModule, batch: int) -> int:
    """A batch size that divides no size and no number in the graph.

    Raises NotBatchDynamic when there is none.
    """
    known = {batch}
    for node in module.graph.nodes:
        tensors = [value for value in flatten(node.meta.get("val"))[0] if isinstance(value, torch.Tensor)]
        known |= {int(size) for tensor in tensors for size in tensor.shape}
        known |= {leaf for leaf in flatten((node.args, dict(node.kwargs)))[0] if type(leaf) is int}
    free = [prime for prime in _PRIMES if not any(n and n % prime == 0 for n in known)]
    if not free:
        raise NotBatchDynamic("every small prime divides one of the sizes in the program", FROM_SOURCE)
    return free[0]


def worlds(
    module: GraphModule, inputs: Mapping[Node, Any], batch: int, instead: int, dim: int
) -> dict[Node, list[World]]:
    """The worlds of every node, the likeliest first.

    inputs: what the placeholders get, at the batch ``instead``. dim: that of the batch.
    Raises NotBatchDynamic at the first node that runs under no reading.
    """
    mode, converter = fake_mode()
    with mode, torch.no_grad(), silent():  # torch logs a page for every reading that does not run
        fake = {node: converter(v) if isinstance(v, torch.Tensor) else v for node, v in inputs.items()}
        return _in_graph(module, fake, batch, instead, dim, converter)


def _in_graph(
    module: GraphModule, inputs: Mapping[Node, Any], batch: int, instead: int, dim: int, converter: Callable[..., Any]
) -> dict[Node, list[World]]:
    found: dict[Node, list[World]] = {}
    for node in module.graph.nodes:
        if node.op == "placeholder":
            found[node] = [World({}, inputs[node])]
        elif node.op == "get_attr":
            found[node] = [World({}, _attribute(module, str(node.target), converter))]
        elif node.op == "output":
            unused = [other for other in found if not other.users]  # what writes in place still has to fit
            found[node] = [
                World(chosen, map_arg(node.args[0], values.__getitem__))
                for chosen, values in _joint([*node.all_input_nodes, *unused], found)[:_MOST]
            ]
        elif region(node) is not None:
            found[node] = _of_region(node, found, batch, instead, dim, converter)
        else:
            found[node] = _of(node, found, batch, instead, dim)
    return found


def _of_region(
    node: Node, found: Mapping[Node, list[World]], batch: int, instead: int, dim: int, converter: Callable[..., Any]
) -> list[World]:
    """The worlds of a graph that is run once, as it is, inside another."""
    inner = region(node)
    assert inner is not None
    placeholders = [other for other in inner.graph.nodes if other.op == "placeholder"]
    results: list[World] = []
    for chosen, values in _joint(node.all_input_nodes, found):
        operands = map_arg(node.args[len(node.args) - len(placeholders) :], values.__getitem__)
        inside = _in_graph(inner, dict(zip(placeholders, operands, strict=True)), batch, instead, dim, converter)
        output = next(other for other in inside if other.op == "output")
        results += [World({**chosen, **world.readings}, world.value) for world in inside[output]]
    return results[:_MOST]


def _of(node: Node, found: dict[Node, list[World]], batch: int, instead: int, dim: int) -> list[World]:
    results: list[World] = []
    seen: set[str] = set()
    made = not is_view(node) and makes_batch(node, dim)
    problem = "it gives sizes that are no multiples of the batch"
    for chosen, values in _joint(node.all_input_nodes, found):
        args, kwargs = map_arg(node.args, values.__getitem__), map_arg(node.kwargs, values.__getitem__)
        if not states_fit(node, args, kwargs, instead):
            problem = "its initial states are for another number of rows than its input"
            continue
        factor = 0
        for reading in readings(node, batch, made):
            if factor and is_view(node) and reading and reading[0].factor > 1:
                break  # a size that equals the batch fits: no need of one that is a multiple of it
            own_args, own_kwargs = applied(node, reading, lambda times: times * instead, args, kwargs)
            try:
                value = node.target(*own_args, **own_kwargs)  # type: ignore[operator]
            except Exception as error:
                problem = problem if results else f"with another batch it fails: {exception_text(error, 160)}"
                continue
            if not _fits(node.meta.get("val"), value, batch, instead):
                continue
            if is_view(node) and not keeps_rows(own_args[0].shape, value.shape, instead):
                problem = "the view puts the elements of one row into others at every other batch"
                continue
            factor = reading[0].factor if reading else 1
            shape = str([tuple(t.shape) for t in flatten(value)[0] if isinstance(t, torch.Tensor)])
            if shape not in seen:  # nothing below could tell them apart
                seen.add(shape)
                results.append(World({**chosen, node: reading} if reading else chosen, value))
    if not results:
        raise NotBatchDynamic(problem, FROM_SOURCE, node)
    return results[:_MOST]


def _joint(
    sources: Sequence[Node], found: Mapping[Node, list[World]]
) -> list[tuple[dict[Node, Reading], dict[Node, Any]]]:
    """Values of ``sources`` under every set of readings that do not contradict each other."""
    joint: list[tuple[dict[Node, Reading], dict[Node, Any]]] = [({}, {})]
    for source in sources:
        joint = [
            (merged, {**values, source: world.value})
            for chosen, values in joint
            for world in found[source]
            if (merged := _merged(chosen, world.readings)) is not None
        ][: 4 * _MOST]
    return joint


def _merged(first: Mapping[Node, Reading], second: Mapping[Node, Reading]) -> dict[Node, Reading] | None:
    if any(first[node] != second[node] for node in first.keys() & second.keys()):
        return None
    return {**first, **second}


def _fits(then: Any, now: Any, batch: int, instead: int) -> bool:
    """Whether ``now`` at the batch ``instead`` is what ``then`` was at ``batch``: each size the same, or as many
    batches."""
    before, after = flatten(then)[0], flatten(now)[0]
    if then is None or len(before) != len(after):
        return then is None
    return all(
        len(old.shape) == len(new.shape)
        and all(n in (o, o * instead / batch) for o, n in zip(old.shape, new.shape, strict=True))
        for old, new in zip(before, after, strict=True)
        if isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor)
    )


def _attribute(module: GraphModule, name: str, converter: Any) -> Any:
    value: Any = module
    for part in name.split("."):
        value = getattr(value, part)
    return converter(value) if isinstance(value, torch.Tensor) else value
