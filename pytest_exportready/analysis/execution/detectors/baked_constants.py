"""Find the line whose value became a constant in the program, or whose branch is taken only while tracing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from pytest_exportready.analysis.execution.call import Call, run
from pytest_exportready.analysis.execution.global_state import global_state_kept
from pytest_exportready.analysis.execution.pytree import distinct, flatten
from pytest_exportready.analysis.module.snapshot import equal_bits, preserved
from pytest_exportready.analysis.program.nodes import calls, source
from pytest_exportready.analysis.source.user_frames import is_users

Line = tuple[str, int]


def baked_constant(module: nn.Module, example: Call, other: Call, *, strict: bool) -> tuple[str, Line] | None:
    """Return what differs and the line of user code, found by exporting ``module`` again; None if nothing is found.

    First the lines that run eagerly are compared with those that run while tracing, then the constants of the program
    for ``example`` with those of the program for ``other``.

    Args:
        other: inputs on which the program is wrong.
    """
    with preserved(module), global_state_kept():
        module.eval()
        try:
            if not strict:
                branch = _traced_branch(module, example)
                if branch is not None:
                    return "While it is traced, `forward` takes another branch at this line.", branch
            constant = _constant(_exported(module, example, strict), _exported(module, other, strict))
        except Exception:  # it cannot be exported again, or not without dynamic shapes
            return None
    return ("The value computed at this line is a constant in the program.", constant) if constant else None


def _exported(module: nn.Module, call: Call, strict: bool) -> ExportedProgram:
    args, kwargs = distinct((tuple(call[0]), dict(call[1])))
    return torch.export.export(module, args, kwargs, strict=strict)


def _traced_branch(module: nn.Module, call: Call) -> Line | None:
    """Return the last line that both runs have, before the first that only the eager run has."""
    eager = _lines(lambda: run(module, [call]))
    traced = set(_lines(lambda: _exported(module, call, strict=False)))
    before: Line | None = None
    for line in eager:
        if line not in traced:
            return before
        before = line
    return None


def _lines(work: Callable[[], Any]) -> list[Line]:
    """Return the lines of user code that ``work`` runs, each once, in order."""
    lines: dict[Line, None] = {}
    before = sys.gettrace()

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        return step if is_users(frame.f_code.co_filename) else None

    def step(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            lines[frame.f_code.co_filename, frame.f_lineno] = None
        return step

    sys.settrace(enter)
    try:
        work()
    finally:
        sys.settrace(before)
    return list(lines)


def _constant(first: ExportedProgram, second: ExportedProgram) -> Line | None:
    """Return the line of the first operator that gets a different constant in the second program."""
    for one, two in zip(calls(first), calls(second), strict=False):
        if one.target != two.target:
            return None
        for a, b in zip(_values(first, one), _values(second, two), strict=False):
            if not _same(a, b):
                file, line = source(one)
                return (file, line) if file else None
    return None


def _values(program: ExportedProgram, node: torch.fx.Node) -> Iterator[Any]:
    """Yield the numbers and lifted tensors among the arguments of ``node``."""
    lifted = program.graph_signature.inputs_to_lifted_tensor_constants
    for argument in flatten((node.args, dict(node.kwargs)))[0]:
        if isinstance(argument, torch.fx.Node):
            if argument.name in lifted:
                yield program.constants[lifted[argument.name]]
        elif isinstance(argument, (bool, int, float)):
            yield argument


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return equal_bits(a, b)
    return bool(a == b) or a != a
