"""Lines of ``forward``, and of what it calls, that a graph may not represent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Literal

from torch import nn

from pytest_exportready.analysis.source.abstract_values import Kind, known
from pytest_exportready.analysis.source.function_source import Source
from pytest_exportready.analysis.source.interpreter import Interpreter

_BY_SEVERITY = ("branch", "number", "state", "size", "loop")


@dataclass(frozen=True)
class Suspect:
    """A line that a graph may not represent."""

    file: str
    line: int
    what: Literal["branch", "number", "size", "loop", "state"]
    """A branch on tensor values, a number taken from them, a size that depends on them, a loop over a tensor, or
    a write of state that outlives the call."""
    words: str  # a sentence without its full stop
    sure: bool  # False behind a condition that is unknown
    source: Source  # the function
    scope: Mapping[str, Kind]  # the kinds of its names at the line


def suspects(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Suspect]:
    """Return these lines for a call with the example inputs, in order, each with its most severe problem.

    Nothing is run. Empty if ``forward`` has no source.
    """
    found: dict[tuple[str, int], Suspect] = {}

    def report(source: Source, scope: Mapping[str, Kind], line: int, what: Any, words: str, sure: bool) -> None:
        before = found.get((source.file, line))
        if before is None or _BY_SEVERITY.index(what) < _BY_SEVERITY.index(before.what):
            found[source.file, line] = Suspect(source.file, line, what, words, sure, source, dict(scope))

    forward = getattr(model.forward, "__func__", model.forward)
    if isinstance(forward, FunctionType):
        owner = [known(model)] if hasattr(model.forward, "__func__") else []
        inputs = [*owner, *map(known, args)]
        Interpreter(report).call(forward, inputs, {name: known(value) for name, value in kwargs.items()}, id(model))
    return list(found.values())
