"""Baked sizes of a graph made from the size of an input."""

from __future__ import annotations

import operator
from collections.abc import Mapping

import torch
from torch.fx import GraphModule, Node

from pytest_exportready.dynamic_batch.readings import Reading, applied


def rewrite(module: GraphModule, readings: Mapping[str, Reading], source: str, dim: int) -> None:
    """Make the sizes that ``readings`` names, by node, from dimension ``dim`` of the placeholder ``source``."""
    nodes = {node.name: node for node in module.graph.nodes}
    last = [node for node in nodes.values() if node.op == "placeholder"][-1]
    made: dict[int, Node] = {}
    with module.graph.inserting_before(last.next):
        if readings:
            made[1] = module.graph.call_function(torch.ops.aten.sym_size.int, (nodes[source], dim))
        for factor in sorted({literal.factor for reading in readings.values() for literal in reading} - {1}):
            made[factor] = module.graph.call_function(operator.mul, (made[1], factor))
    for name, reading in readings.items():
        node = nodes[name]
        node.args, node.kwargs = applied(node, reading, made.__getitem__, node.args, dict(node.kwargs))
        if node.target is torch.ops.aten.split.Tensor:  # torch takes no size for it that is not known
            node.target = torch.ops.aten.split_with_sizes.default
            node.args = (node.args[0], [node.args[1]] * len(node.meta["val"]), *node.args[2:])
    module.recompile()
