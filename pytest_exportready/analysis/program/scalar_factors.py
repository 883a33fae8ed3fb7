"""Numbers by which a program multiplies or divides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch.export import ExportedProgram

from pytest_exportready.analysis.module.tensor_values import readable
from pytest_exportready.analysis.program.nodes import argument, calls, nested, operator_name

_SCALING = ("mul", "mul_", "multiply", "div", "div_", "divide", "true_divide")
_COPIES = ("to", "_to_copy", "detach", "alias", "clone", "lift_fresh_copy", "contiguous")
_RESHAPES = ("view", "reshape", "flatten", "unsqueeze", "squeeze", "expand", "permute", "transpose")
_SUMS = ("sum", "mean")


@dataclass(frozen=True)
class Factor:
    """node: multiplies or divides by ``value``. literal: a Python number, not a tensor. returned: the product is an
    output, at most averaged and reshaped on the way."""

    node: torch.fx.Node
    value: float
    literal: bool
    returned: bool


def factors(program: ExportedProgram) -> Iterator[Factor]:
    """Every product with a number that is fixed in ``program``."""
    numbers = _constants(program)
    outside: dict[torch.fx.Node, torch.fx.Node] = {}  # what the inputs of nested graphs are
    for node in calls(program):
        outside.update(_handed_in(node))
    for node in calls(program):
        if _called(node) in _SCALING:
            for operand in node.args[:2]:
                value = _number(operand, numbers, outside)
                if value is not None:
                    yield Factor(node, value, not isinstance(operand, torch.fx.Node), _returned(node))


def _constants(program: ExportedProgram) -> dict[str, float]:
    """Tensors of one number that the program holds, by the name of their placeholder."""
    found: dict[str, float] = {}
    for name, constant in program.graph_signature.inputs_to_lifted_tensor_constants.items():
        value = program.constants.get(constant)
        if isinstance(value, torch.Tensor) and value.numel() == 1 and readable(value) and not value.is_complex():
            found[name] = float(value)
    return found


def _handed_in(node: torch.fx.Node) -> Iterator[tuple[torch.fx.Node, torch.fx.Node]]:
    """Inputs of the graph that a region runs, each with what it is outside."""
    for graph in nested(node) if _called(node).startswith("wrap_with") else ():
        inputs = [inner for inner in graph.graph.nodes if inner.op == "placeholder"]
        operands = node.args[len(node.args) - len(inputs) :]
        yield from ((a, b) for a, b in zip(inputs, operands, strict=True) if isinstance(b, torch.fx.Node))


def _called(node: torch.fx.Node) -> str:
    return operator_name(node).removeprefix("aten::")


def _number(
    operand: object, numbers: Mapping[str, float], outside: Mapping[torch.fx.Node, torch.fx.Node]
) -> float | None:
    if isinstance(operand, (int, float)):
        return float(operand)
    if not isinstance(operand, torch.fx.Node):
        return None
    if operand in outside:
        return _number(outside[operand], numbers, outside)
    if operand.op == "placeholder":
        return numbers.get(operand.name)
    if _called(operand) == "full" and not operand.args[0]:
        value = argument(operand, "fill_value")
        return float(value) if isinstance(value, (int, float)) else None
    if _called(operand) in (*_COPIES, *_RESHAPES):
        return _number(operand.args[0], numbers, outside)
    return None


def _returned(node: torch.fx.Node) -> bool:
    for user in node.users:
        if user.op == "output" or (_called(user) in (*_COPIES, *_RESHAPES, *_SUMS) and _returned(user)):
            return True
    return False
