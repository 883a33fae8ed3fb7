"""Autocast regions in a program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch.export import ExportedProgram

from pytest_exportready.analysis.program.nodes import calls, nested, operator_name, owner, source


@dataclass(frozen=True)
class Region:
    """One autocast region."""

    device_type: str
    dtype: torch.dtype | None
    modules: tuple[str, ...]  # whose code the calls in it come from, outermost first
    file: str
    line: int


def enabled_regions(program: ExportedProgram) -> Iterator[Region]:
    """Yield every region in which autocast is enabled."""
    for node in calls(program):
        if operator_name(node) == "wrap_with_autocast" and node.args[2]:
            dtype = node.args[1] if isinstance(node.args[1], torch.dtype) else None
            yield Region(str(node.args[0]), dtype, _modules(node), *source(node))


def _modules(node: torch.fx.Node) -> tuple[str, ...]:
    """Return the names of the modules that contain all calls of the region, from the root."""
    owners = [owner(call).split(".") for graph in nested(node) for call in graph.graph.nodes if _in_a_module(call)]
    shared: list[str] = []
    for parts in zip(*owners, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return tuple(dict.fromkeys(["", *(".".join(shared[: end + 1]) for end in range(len(shared)))]))


def _in_a_module(call: torch.fx.Node) -> bool:
    return call.op == "call_function" and "nn_module_stack" in call.meta
