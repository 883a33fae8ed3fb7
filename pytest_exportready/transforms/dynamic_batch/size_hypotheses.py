"""Find the baked sizes that come from the batch: run the graph at a stand-in batch under every interpretation."""

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
    Interpretation,
    applied,
    interpretations,
    is_view,
    keeps_rows,
)

_MOST = 12  # hypotheses kept for one node
_PRIMES = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61)


@dataclass(frozen=True)
class Hypothesis:
    """A value of a node under interpretations of the sizes above it."""

    interpretations: Mapping[Node, Interpretation]
    value: Any  # fake, at the stand-in batch


def stand_in(module: GraphModule, batch: int) -> int:
    """Return a batch size that divides no size and no number in the graph. Raise NotBatchDynamic without one."""
    known = {batch}
    for node in module.graph.nodes:
        tensors = [value for value in flatten(node.meta.get("val"))[0] if isinstance(value, torch.Tensor)]
        known |= {int(size) for tensor in tensors for size in tensor.shape}
        known |= {leaf for leaf in flatten((node.args, dict(node.kwargs)))[0] if type(leaf) is int}
    free = [prime for prime in _PRIMES if not any(n and n % prime == 0 for n in known)]
    if not free:
        raise NotBatchDynamic("every small prime divides one of the sizes in the program", FROM_SOURCE)
    return free[0]


def hypotheses(
    module: GraphModule, inputs: Mapping[Node, Any], batch: int, instead: int, dim: int
) -> dict[Node, list[Hypothesis]]:
    """Return the hypotheses of every node, the likeliest first.

    Args:
        inputs: Values of the placeholders at the batch ``instead``.
        dim: The dimension of the batch.

    Raises:
        NotBatchDynamic: A node does not run under any interpretation.
    """
    mode, converter = fake_mode()
    with mode, torch.no_grad(), silent():  # torch logs for every interpretation that does not run
        fake = {node: converter(v) if isinstance(v, torch.Tensor) else v for node, v in inputs.items()}
        return _in_graph(module, fake, batch, instead, dim, converter)


def _in_graph(
    module: GraphModule, inputs: Mapping[Node, Any], batch: int, instead: int, dim: int, converter: Callable[..., Any]
) -> dict[Node, list[Hypothesis]]:
    found: dict[Node, list[Hypothesis]] = {}
    for node in module.graph.nodes:
        if node.op == "placeholder":
            found[node] = [Hypothesis({}, inputs[node])]
        elif node.op == "get_attr":
            found[node] = [Hypothesis({}, _attribute(module, str(node.target), converter))]
        elif node.op == "output":
            unused = [other for other in found if not other.users]  # nodes that write in place must fit, too
            found[node] = [
                Hypothesis(chosen, map_arg(node.args[0], values.__getitem__))
                for chosen, values in _joint([*node.all_input_nodes, *unused], found)[:_MOST]
            ]
        elif region(node) is not None:
            found[node] = _of_region(node, found, batch, instead, dim, converter)
        else:
            found[node] = _of(node, found, batch, instead, dim)
    return found


def _of_region(
    node: Node,
    found: Mapping[Node, list[Hypothesis]],
    batch: int,
    instead: int,
    dim: int,
    converter: Callable[..., Any],
) -> list[Hypothesis]:
    """Return the hypotheses of a graph that is run once, unchanged, inside another."""
    inner = region(node)
    assert inner is not None
    placeholders = [other for other in inner.graph.nodes if other.op == "placeholder"]
    results: list[Hypothesis] = []
    for chosen, values in _joint(node.all_input_nodes, found):
        operands = map_arg(node.args[len(node.args) - len(placeholders) :], values.__getitem__)
        inside = _in_graph(inner, dict(zip(placeholders, operands, strict=True)), batch, instead, dim, converter)
        output = next(other for other in inside if other.op == "output")
        results += [
            Hypothesis({**chosen, **hypothesis.interpretations}, hypothesis.value) for hypothesis in inside[output]
        ]
    return results[:_MOST]


def _of(node: Node, found: dict[Node, list[Hypothesis]], batch: int, instead: int, dim: int) -> list[Hypothesis]:
    results: list[Hypothesis] = []
    seen: set[str] = set()
    problems: list[_Misfit] = []
    made = not is_view(node) and makes_batch(node, dim)
    for chosen, values in _joint(node.all_input_nodes, found):
        args, kwargs = map_arg(node.args, values.__getitem__), map_arg(node.kwargs, values.__getitem__)
        factor = 0
        for interpretation in interpretations(node, batch, made):
            if factor and is_view(node) and interpretation and interpretation[0].factor > 1:
                break  # a size that equals the batch fits, so a multiple of it is not needed
            try:
                value = _value(
                    node, applied(node, interpretation, lambda times: times * instead, args, kwargs), batch, instead
                )
            except _Misfit as problem:
                problems.append(problem)
                continue
            factor = interpretation[0].factor if interpretation else 1
            shape = str([tuple(t.shape) for t in flatten(value)[0] if isinstance(t, torch.Tensor)])
            if shape not in seen:  # nodes below cannot distinguish values of the same shapes
                seen.add(shape)
                results.append(Hypothesis({**chosen, node: interpretation} if interpretation else chosen, value))
    if not results:
        raise NotBatchDynamic(str(max(problems, key=lambda problem: problem.precision)), FROM_SOURCE, node)
    return results[:_MOST]


class _Misfit(Exception):
    """Why an interpretation does not fit. The most precise of several is reported."""

    def __init__(self, precision: int, problem: str) -> None:
        super().__init__(problem)
        self.precision = precision


def _value(node: Node, call: tuple[tuple[Any, ...], dict[str, Any]], batch: int, instead: int) -> Any:
    """Return the fake value of ``node``. Raise _Misfit unless it fits the value at the original batch."""
    args, kwargs = call
    if not states_fit(node, args, kwargs, instead):
        raise _Misfit(3, "its initial states have another number of rows than its input")
    try:
        value = node.target(*args, **kwargs)  # type: ignore[operator]
    except Exception as error:
        raise _Misfit(1, f"it fails with another batch size: {exception_text(error, 160)}") from error
    if not _fits(node.meta.get("val"), value, batch, instead):
        raise _Misfit(0, "its output sizes are not multiples of the batch size")
    if is_view(node) and not keeps_rows(args[0].shape, value.shape, instead):
        raise _Misfit(2, "at other batch sizes, the view moves elements of one row into another")
    return value


def _joint(
    sources: Sequence[Node], found: Mapping[Node, list[Hypothesis]]
) -> list[tuple[dict[Node, Interpretation], dict[Node, Any]]]:
    """Return the values of ``sources`` under every consistent set of interpretations."""
    joint: list[tuple[dict[Node, Interpretation], dict[Node, Any]]] = [({}, {})]
    for source in sources:
        joint = [
            (merged, {**values, source: hypothesis.value})
            for chosen, values in joint
            for hypothesis in found[source]
            if (merged := _merged(chosen, hypothesis.interpretations)) is not None
        ][: 4 * _MOST]
    return joint


def _merged(
    first: Mapping[Node, Interpretation], second: Mapping[Node, Interpretation]
) -> dict[Node, Interpretation] | None:
    if any(first[node] != second[node] for node in first.keys() & second.keys()):
        return None
    return {**first, **second}


def _fits(then: Any, now: Any, batch: int, instead: int) -> bool:
    """Return whether every size at the batch ``instead`` is the same as at ``batch``, or as many batches."""
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
