"""Internals of exports and programs: guards, bounds, failures."""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch

from pytest_exportready.analysis.torch_internals.tensors import is_fake

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def tracing_mode(program: ExportedProgram) -> AbstractContextManager[Any]:
    """Return the mode in which operators on fake values of nodes (``node.meta["val"]``) return fake values.

    Neither FakeTensor nor its mode is public. A mode without effect if no node has such a value.
    """
    values = [value for node in program.graph.nodes if is_fake(value := node.meta.get("val"))]
    mode: AbstractContextManager[Any] = values[0].fake_mode if values else nullcontext()
    return mode


def traced_frames(error: BaseException) -> list[tuple[str, int]]:
    """Return the files and lines that strict export was tracing when ``error`` was raised, innermost last.

    Empty if unknown. Only some exceptions quote them in their message.
    """
    stack = getattr(error, "real_stack", None) or ()
    return [(frame.filename, frame.lineno or 0) for frame in stack if hasattr(frame, "filename")]


def failed_operator(error: BaseException) -> str:
    """Return the operator that was traced when ``error`` was raised, such as ``aten.add.Tensor``; empty if unknown.

    Some exceptions have it as ``func``; otherwise it is in the stack. Its class is private.
    """
    carried = getattr(error, "func", None)
    stack = [frame.f_locals for frame, _ in traceback.walk_tb(error.__traceback__)]
    held = [local for names in reversed(stack) for local in (names.get("func"), names.get("op"), names.get("self"))]
    return next((str(one) for one in (carried, *held) if isinstance(one, torch._ops.OpOverload)), "")


def draft_failures(program: ExportedProgram) -> list[tuple[str, str, int, list[str]]]:
    """Return the problems that ``draft_export`` found, as ``(kind, file, line, subjects)``; empty if unknown.

    The public report is text only. Kinds are ``DATA_DEPENDENT_ERROR``, ``GUARD_ADDED``, ``MISSING_FAKE_KERNEL`` and
    ``MISMATCHED_FAKE_KERNEL``. File and line are those of the innermost Python frame of the model; subjects are
    operators, or sizes such as ``L['x'].size()[0]``.
    """
    report = getattr(program, "_report", None)
    interned = getattr(sys.modules.get("torch._logging.structured"), "INTERN_TABLE", None) or {}
    files = {number: file for file, number in interned.items()}  # the report's table lacks known files
    found: list[tuple[str, str, int, list[str]]] = []
    for failure in getattr(report, "failures", None) or []:
        data = failure.data
        frame = (data.get("user_stack") or data.get("stack") or [{}])[-1]
        subjects = [str(data["op"])] if "op" in data else [str(s) for s in data.get("symbol_to_sources", {}).values()]
        kind = getattr(failure.failure_type, "name", "")
        found.append((kind, str(files.get(frame.get("filename"), "")), int(frame.get("line") or 0), subjects))
    return found


class SizeGuards(logging.Handler):
    """Record what a trace within the block fixes or assumes about the sizes of its inputs.

    A program keeps the conditions, but not the lines that caused them.

    Attributes:
        found: ``(subject, condition, stack)`` with subjects such as ``L['x'].size()[0]`` and the Python files and lines
            that caused the condition, innermost last; empty if unknown.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str, list[tuple[str, int]]]] = []
        self._subjects: dict[str, str] = {}
        self._logger = logging.getLogger("torch.__trace")

    def __enter__(self) -> SizeGuards:
        self._level = self._logger.level
        self._logger.addHandler(self)
        self._logger.setLevel(logging.DEBUG)
        return self

    def __exit__(self, *error: object) -> None:
        self._logger.removeHandler(self)
        self._logger.setLevel(self._level)

    def emit(self, record: logging.LogRecord) -> None:
        metadata = getattr(record, "metadata", None) or {}
        for made in filter(None, [metadata.get("create_symbol")]):
            self._subjects[str(made.get("symbol"))] = str(made.get("source"))
        for fixed in filter(None, [metadata.get("symbolic_shape_specialization")]):
            self._note([str(source) for source in fixed.get("sources") or ()], f"== {fixed.get('value')}")
        for guard in filter(None, [metadata.get("guard_added_fast") or metadata.get("guard_added")]):
            condition = str(guard.get("expr"))
            self._note(
                [of for symbol, of in self._subjects.items() if re.search(rf"\b{symbol}\b", condition)], condition
            )

    def _note(self, subjects: list[str], condition: str) -> None:
        stack = [(frame.filename, frame.lineno or 0) for frame in traceback.extract_stack()]
        self.found += [(subject, condition, stack) for subject in subjects]


def program_guards(program: ExportedProgram) -> list[str]:
    """Return the guards of a program as Python expressions, such as ``L['x'].size()[0] % 2 == 0``; empty if unknown.

    ``range_constraints`` has ranges only, not divisibility.
    """
    return list(getattr(program, "_guards_code", None) or [])


def without_bound(program: ExportedProgram) -> set[str]:
    """Return the names of sizes without an upper bound. torch has no public name for infinity."""
    return {str(size) for size, span in program.range_constraints.items() if span.upper > sys.maxsize // 2}


def bound_sizes(program: ExportedProgram, most: Mapping[str, int]) -> None:
    """Set upper bounds of sizes in ``program``, in place.

    Backends read them from the ShapeEnv of its fake tensors. The public API sets them by a new export only.
    """
    values = (node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder")
    sizes = (size for value in values for size in getattr(value, "shape", ()) if isinstance(size, torch.SymInt))
    environment = next((size.node.shape_env for size in sizes), None)
    for size, span in list(program.range_constraints.items()):
        if environment is not None and str(size) in most:
            bounded = type(span)(span.lower, most[str(size)])
            program.range_constraints[size] = environment.var_to_range[size] = bounded
