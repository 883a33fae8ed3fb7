"""Replace baked sizes of a graph by the size of an input."""

from __future__ import annotations

import operator
from collections.abc import Mapping

import torch
from torch.fx import GraphModule, Node

from pytest_exportready.analysis.program.nodes import nested, operator_name
from pytest_exportready.transforms.dynamic_batch.size_interpretations import Interpretation, applied

_REGIONS = ("wrap_with_autocast", "wrap_with_set_grad_enabled")

Name = tuple[str, str]  # of the module whose graph it is, and of the node


def name_of(module: GraphModule, node: Node) -> Name:
    """Return the name by which a node is found in a copy of the module."""
    owner = next(name for name, inner in module.named_modules() if getattr(inner, "graph", None) is node.graph)
    return owner, node.name


def region(node: Node) -> GraphModule | None:
    """Return the graph that a node runs once, unchanged; None for any other node."""
    return next(nested(node), None) if operator_name(node) in _REGIONS else None


def rewrite(module: GraphModule, interpretations: Mapping[Name, Interpretation], source: str, dim: int) -> None:
    """Compute the sizes in ``interpretations`` from dimension ``dim`` of the placeholder ``source``."""
    if not interpretations:
        return
    placeholder = next(node for node in module.graph.nodes if node.name == source)
    last = [node for node in module.graph.nodes if node.op == "placeholder"][-1]
    with module.graph.inserting_before(last.next):
        batch = module.graph.call_function(torch.ops.aten.sym_size.int, (placeholder, dim))
    _rewrite(module, module, interpretations, batch)


def _rewrite(
    whole: GraphModule, module: GraphModule, interpretations: Mapping[Name, Interpretation], batch: Node
) -> None:
    for node in list(module.graph.nodes):
        inner = region(node) if node.op == "call_function" else None
        if inner is not None and any(_is_in(whole, inner, name) for name in interpretations):
            first = next(other for other in inner.graph.nodes if other.op != "placeholder")
            with inner.graph.inserting_before(first):
                inner_batch = inner.graph.placeholder("batch")
            node.args = (*node.args, batch)
            _rewrite(whole, inner, interpretations, inner_batch)
        elif node.op == "call_function" and (interpretation := interpretations.get(name_of(whole, node))):
            made = {1: batch}
            with module.graph.inserting_before(node):
                for factor in {size.factor for size in interpretation} - {1}:
                    made[factor] = module.graph.call_function(operator.mul, (batch, factor))
            node.args, node.kwargs = applied(node, interpretation, made.__getitem__, node.args, dict(node.kwargs))
            if node.target is torch.ops.aten.split.Tensor:  # it does not accept a symbolic size
                node.target = torch.ops.aten.split_with_sizes.default
                node.args = (node.args[0], [node.args[1]] * len(node.meta["val"]), *node.args[2:])
    module.recompile()


def _is_in(whole: GraphModule, inner: GraphModule, name: Name) -> bool:
    """Return whether a node is in ``inner`` or in a graph nested in it."""
    return any(whole.get_submodule(name[0]) is module for module in inner.modules())
