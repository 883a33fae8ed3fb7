"""A copy of an exported program whose graph may be rewritten."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from pytest_exportready.analysis.program.nodes import graphs


def twin(program: ExportedProgram) -> ExportedProgram:
    """A copy of ``program`` with a graph and a signature of its own.

    Its weights and constants are other tensors on the same memory: moving its module moves those of no other.
    """
    shared = {id(held): _same_memory(held) for held in [*program.state_dict.values(), *program.constants.values()]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch's own, about how its specs of trees are made
        copied = copy.deepcopy(program, shared)
    for original, own in zip(graphs(program), graphs(copied), strict=True):
        for node, twin_node in zip(original.graph.nodes, own.graph.nodes, strict=True):
            twin_node.name = node.name  # a copied graph renames what is called like a builtin of Python: `input`
            twin_node.target = node.target if node.op == "placeholder" else twin_node.target
        own.recompile()
    return copied


def _same_memory(held: Any) -> Any:
    if isinstance(held, nn.Parameter):
        return nn.Parameter(held.detach(), held.requires_grad)
    return held.detach() if isinstance(held, torch.Tensor) else held
