"""The dtype of each operator of a program in lower precision, and values near the largest of that dtype."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram

from pytest_exportready.analysis.execution.pytree import flatten
from pytest_exportready.analysis.program.nodes import operator_name, owner, source
from pytest_exportready.transforms.precision.rewriting import to_precision

_NEAR = 8.0  # 3 of the 15 powers of two of float16; values of other inputs are rarely larger by more


@dataclass(frozen=True)
class Operation:
    """One operator of the program."""

    node: str  # name in the graph
    operator: str
    module: str  # whose ``forward`` calls it
    file: str
    line: int
    dtype: torch.dtype  # of its result in lower precision
    largest: float | None  # largest absolute finite value in the present precision; None if it was not run
    limit: float  # largest value of ``dtype``

    @property
    def headroom(self) -> float:
        """The factor by which its values may grow; below 1 they overflow."""
        return self.limit / self.largest if self.largest else math.inf


@dataclass(frozen=True)
class PrecisionReport:
    """The dtypes in which a program runs under ``to_precision``."""

    dtype: torch.dtype  # the lower precision
    operations: tuple[Operation, ...]  # those with a floating-point result, in order

    @property
    def lowered(self) -> tuple[Operation, ...]:
        """Operations that run in the lower dtype."""
        return tuple(one for one in self.operations if one.dtype == self.dtype)

    @property
    def at_risk(self) -> tuple[Operation, ...]:
        """Operations in the lower dtype with values within a factor of 8 of its largest, the worst first."""
        return tuple(sorted((o for o in self.lowered if o.headroom < _NEAR), key=lambda o: o.headroom))

    def __str__(self) -> str:
        kinds: dict[torch.dtype, Counter[str]] = {}
        for one in self.operations:
            kinds.setdefault(one.dtype, Counter())[one.operator] += 1
        lines = [
            f"{_name(dtype)}: " + ", ".join(f"{name} x{count}" for name, count in sorted(counted.items()))
            for dtype, counted in sorted(kinds.items(), key=lambda kind: str(kind[0]))
        ]
        for one in self.at_risk:
            what = "overflows" if one.headroom < 1 else "is close to the limit"
            place = f" {one.file}:{one.line}" if one.file else ""
            lines.append(f"{one.node} ({one.operator}){place} {what}: {one.largest:.3g} of {one.limit:.3g}")
        return "\n".join(lines)


def precision_report(program: ExportedProgram, dtype: torch.dtype, *inputs: Any) -> PrecisionReport:
    """Return the dtypes of ``to_precision(program, dtype)``, and the values of ``program`` in its present precision.

    Args:
        inputs: Positional arguments for the program; by default its example inputs. Without either, no values are
            reported.

    Raises:
        ValueError: ``to_precision`` does not support ``dtype``.
    """
    lowered = {node.name: node for node in to_precision(program, dtype).graph.nodes}
    call = (inputs, {}) if inputs else program.example_inputs
    largest = _largest(program, *call) if call is not None else {}
    operations = []
    for node in program.graph.nodes:
        val = lowered[node.name].meta.get("val") if node.name in lowered else None
        if node.op != "call_function" or not isinstance(val, torch.Tensor) or not val.is_floating_point():
            continue
        limit = torch.finfo(val.dtype).max
        known = operator_name(node), owner(node), *source(node), val.dtype
        operations.append(Operation(node.name, *known, largest.get(node.name), limit))
    return PrecisionReport(dtype, tuple(operations))


def _largest(program: ExportedProgram, args: Any, kwargs: Any) -> dict[str, float]:
    """Return the largest absolute value of each floating-point result by node name."""
    found: dict[str, float] = {}

    class Recorder(torch.fx.Interpreter):
        def run_node(self, node: torch.fx.Node) -> Any:
            result = super().run_node(node)
            if isinstance(result, torch.Tensor) and result.is_floating_point() and result.numel():
                finite = result.abs().nan_to_num(0.0, 0.0, 0.0)
                found[node.name] = float(finite.max())
            return result

    module = program.module()
    with torch.no_grad():
        Recorder(module).run(*flatten((tuple(args), dict(kwargs)))[0])
    return found


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
