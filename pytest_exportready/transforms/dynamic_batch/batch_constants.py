"""Numbers and branches of the user's source that stem from the size of the batch, and are frozen in the program."""

from __future__ import annotations

import linecache
import math
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from pytest_exportready.analysis.execution.pytree import flatten
from pytest_exportready.analysis.program.node_effects import schema_of
from pytest_exportready.analysis.program.nodes import operator_name
from pytest_exportready.analysis.source.line_context import Running, running
from pytest_exportready.analysis.source.user_frames import is_users, stack_places

_FRAME = re.compile(r'File "(.+?)", line (\d+)')
_SMALL = 16  # elements of a constant that could be a number


def batch_numbers(program: ExportedProgram, module: GraphModule, batch: int, dim: int) -> Iterator[tuple[Node, str]]:
    """Nodes that compute with a number that stems from the batch, or were recorded on one side of a branch that does;
    with what is wrong.

    By the source, where it can be read; without it, by what the number is.
    """
    lifted = set(program.graph_signature.inputs_to_lifted_tensor_constants.values())
    for graph in (inner for inner in module.modules() if isinstance(inner, GraphModule)):
        for node in graph.graph.nodes:
            source = source_of(node, dim) if node.op == "call_function" else None
            branch = next((line for names, _ in source.parts if (line := names.branch())), 0) if source else 0
            if branch:
                yield (
                    node,
                    f"the batch decides a branch or a loop in line {branch}, recorded as it goes with {batch} rows",
                )
            if any(_stems(node, number, source, batch) for number in _numbers(node, lifted, program)):
                yield node, f"a number in it can stem from the batch of {batch}, and is the same for every other batch"


def unread(module: GraphModule) -> tuple[Node, str] | None:
    """The first node whose source cannot be read, and why: a branch on the batch could not be seen there."""
    made = [node for node in module.graph.nodes if node.op == "call_function"]
    for node in made:
        trace = str(node.meta.get("stack_trace") or "")
        for file, line in _FRAME.findall(trace):
            if file.startswith("<eval_with_key>") or not (is_users(file) or file.startswith("<")):
                continue  # code that torch generated, or its own
            text = linecache.getline(file, int(line)).strip()
            if not text or text not in trace:
                return node, f"{file} {'is another by now' if text else 'cannot be read'}"
    if made and not any(node.meta.get("stack_trace") for node in made):
        return made[0], "the program was saved without stack traces"
    return None


def makes_batch(node: Node, dim: int) -> bool:
    """Whether the source makes a tensor with a size from the batch where ``node`` was called."""
    source = source_of(node, dim)
    return source is not None and any(names.gives_sizes(part) for names, part in source.parts)


def source_of(node: Node, dim: int | None) -> Running | None:
    """What runs at the line that made the call; None where the file cannot be read, or is another by now."""
    trace = str(node.meta.get("stack_trace") or "")
    places = tuple(stack_places(trace))
    same = all(linecache.getline(file, line).strip() in trace for file, line in places)
    return running(places, dim) if places and same else None


def _stems(node: Node, number: float, source: Running | None, batch: int) -> bool:
    if source is None:
        return _related(number, batch)
    if any(names.computes(part, _name(node), number) for names, part in source.parts):
        return True
    if source.opaque and _related(number, batch):
        return True
    anywhere = source_of(node, None) if abs(number) in (batch, 1 / batch) and batch > 1 else None
    return anywhere is not None and any(names.computes(part, _name(node), number) for names, part in anywhere.parts)


def _name(node: Node) -> str:
    """Of the operator, as Python spells it: ``mul`` for ``aten::mul_``."""
    return operator_name(node).rpartition("::")[2].strip("_") if node.op == "call_function" else ""


def _of_torch(node: Node) -> bool:
    """Whether the call is made by a layer of torch."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    kind = stack[-1][1] if stack else ""
    return str(getattr(kind, "__module__", kind)).startswith("torch.nn.modules")


def _numbers(node: Node, lifted: set[str], program: ExportedProgram) -> Iterator[float]:
    if node.op == "output":
        yield from (float(leaf) for leaf in flatten(node.args)[0] if type(leaf) in (int, float))
        return
    if node.op != "call_function" or _of_torch(node):
        return
    schema = schema_of(node)
    for position, declared in enumerate(schema.arguments if schema is not None else ()):
        value: Any = node.args[position] if position < len(node.args) else node.kwargs.get(declared.name)
        kinds = ("number", "float", "Tensor")  # a tensor may be given as a number
        if type(value) in (int, float) and any(kind in str(declared.type) for kind in kinds) and not _of_sizes(node):
            yield float(value)
    for source in node.all_input_nodes:
        constant = program.constants.get(str(source.target)) if source.op == "get_attr" else None
        if source.target in lifted and isinstance(constant, torch.Tensor) and constant.numel() <= _SMALL:
            yield from (float(number) for number in constant.flatten().tolist() if not isinstance(number, complex))


def _of_sizes(node: Node) -> bool:
    return "arange" in str(node.target)


def _related(number: float, batch: int) -> bool:
    """Whether a number is one that programs compute from the size of a batch."""
    simple = {float(batch + step) for step in (-1, 0, 1)} | {math.sqrt(batch)}
    simple |= {1 / n for n in simple if n}
    return any(math.isclose(abs(number), n, rel_tol=1e-6) for n in simple - {0.0, 1.0})
