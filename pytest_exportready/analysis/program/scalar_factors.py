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
    """A multiplication or division by a number."""

    node: torch.fx.Node
    value: float
    literal: bool  # a Python number, not a tensor
    returned: bool  # the product is an output, possibly averaged and reshaped


def factors(program: ExportedProgram) -> Iterator[Factor]:
    """Yield every multiplication or division by a constant number of ``program``."""
    numbers = _constants(program)
    outside: dict[torch.fx.Node, torch.fx.Node] = {}  # operands by the inputs of nested graphs
    for node in calls(program):
        outside.update(_region_inputs(node))
    for node in calls(program):
        if _short_name(node) in _SCALING:
            for operand in node.args[:2]:
                value = _number(operand, numbers, outside)
                if value is not None:
                    yield Factor(node, value, not isinstance(operand, torch.fx.Node), _returned(node))


def _constants(program: ExportedProgram) -> dict[str, float]:
    """Return the one-element constants of the program by the name of their placeholder."""
    found: dict[str, float] = {}
    for name, constant in program.graph_signature.inputs_to_lifted_tensor_constants.items():
        value = program.constants.get(constant)
        if isinstance(value, torch.Tensor) and value.numel() == 1 and readable(value) and not value.is_complex():
            found[name] = float(value)
    return found


def _region_inputs(node: torch.fx.Node) -> Iterator[tuple[torch.fx.Node, torch.fx.Node]]:
    """Yield the inputs of the graph that a region runs, each with its operand."""
    for graph in nested(node) if _short_name(node).startswith("wrap_with") else ():
        inputs = [inner for inner in graph.graph.nodes if inner.op == "placeholder"]
        operands = node.args[len(node.args) - len(inputs) :]
        yield from ((a, b) for a, b in zip(inputs, operands, strict=True) if isinstance(b, torch.fx.Node))


def _short_name(node: torch.fx.Node) -> str:
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
    if _short_name(operand) == "full" and not operand.args[0]:
        value = argument(operand, "fill_value")
        return float(value) if isinstance(value, (int, float)) else None
    if _short_name(operand) in (*_COPIES, *_RESHAPES):
        return _number(operand.args[0], numbers, outside)
    return None


def _returned(node: torch.fx.Node) -> bool:
    for user in node.users:
        if user.op == "output" or (_short_name(user) in (*_COPIES, *_RESHAPES, *_SUMS) and _returned(user)):
            return True
    return False
