"""Copy an exported program to rewrite its graph."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from pytest_exportready.analysis.program.nodes import graphs


def program_copy(program: ExportedProgram) -> ExportedProgram:
    """Return a copy of ``program`` with its own graph and signature.

    Its weights and constants are new tensors on the same memory, so moving its module does not move the original.
    """
    shared = {id(held): _same_memory(held) for held in [*program.state_dict.values(), *program.constants.values()]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # raised by torch about its own pytree specs
        copied = copy.deepcopy(program, shared)
    for original, own in zip(graphs(program), graphs(copied), strict=True):
        for node, copied_node in zip(original.graph.nodes, own.graph.nodes, strict=True):
            copied_node.name = node.name  # copying a graph renames nodes called like a Python builtin: `input`
            copied_node.target = node.target if node.op == "placeholder" else copied_node.target
        own.recompile()
    return copied


def _same_memory(held: Any) -> Any:
    if isinstance(held, nn.Parameter):
        return nn.Parameter(held.detach(), held.requires_grad)
    return held.detach() if isinstance(held, torch.Tensor) else held
