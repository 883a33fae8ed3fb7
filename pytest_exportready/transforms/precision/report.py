"""What a program in lower precision runs in what, and which values come near the largest that the dtype holds."""

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

_NEAR = 8.0  # three of float16's 15 steps of range: other inputs are seldom larger by more


@dataclass(frozen=True)
class Operation:
    """One operator of the program.

    node: its name in the graph. module, file, line: whose forward calls it. dtype: what its result is in, after the
    rewriting. largest: the largest absolute finite value that it gave in float32 on the example inputs; None where
    it was not run. limit: the largest value of ``dtype``.
    """

    node: str
    operator: str
    module: str
    file: str
    line: int
    dtype: torch.dtype
    largest: float | None
    limit: float

    @property
    def headroom(self) -> float:
        """How many times larger its values could be; below 1 they overflow."""
        return self.limit / self.largest if self.largest else math.inf


@dataclass(frozen=True)
class PrecisionReport:
    """dtype: what the program was rewritten to. operations: those with a floating result, in order."""

    dtype: torch.dtype
    operations: tuple[Operation, ...]

    @property
    def lowered(self) -> tuple[Operation, ...]:
        """What runs in the lower dtype."""
        return tuple(one for one in self.operations if one.dtype == self.dtype)

    @property
    def at_risk(self) -> tuple[Operation, ...]:
        """What runs in the lower dtype with values within a factor of 8 of its largest, the worst first."""
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
            what = "overflows" if one.headroom < 1 else "comes near the limit"
            place = f" {one.file}:{one.line}" if one.file else ""
            lines.append(f"{one.node} ({one.operator}){place} {what}: {one.largest:.3g} of {one.limit:.3g}")
        return "\n".join(lines)


def precision_report(program: ExportedProgram, dtype: torch.dtype, *inputs: Any) -> PrecisionReport:
    """What ``to_precision(program, dtype)`` runs in what, and the range that ``program``, in the precision that it has
    now, needs on ``inputs``, given as to its forward.

    Without ``inputs`` the example inputs are taken that the program carries; where it has none, no range is told.
    Raises ValueError for a dtype that ``to_precision`` refuses, and what running the program raises.
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
        told = operator_name(node), owner(node), *source(node), val.dtype
        operations.append(Operation(node.name, *told, largest.get(node.name), limit))
    return PrecisionReport(dtype, tuple(operations))


def _largest(program: ExportedProgram, args: Any, kwargs: Any) -> dict[str, float]:
    """The largest absolute value of each floating result, by the name of its node."""
    found: dict[str, float] = {}

    class Watching(torch.fx.Interpreter):
        def run_node(self, node: torch.fx.Node) -> Any:
            result = super().run_node(node)
            if isinstance(result, torch.Tensor) and result.is_floating_point() and result.numel():
                finite = result.abs().nan_to_num(0.0, 0.0, 0.0)
                found[node.name] = float(finite.max())
            return result

    module = program.module()
    with torch.no_grad():
        Watching(module).run(*flatten((tuple(args), dict(kwargs)))[0])
    return found


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
