"""Lines of ``forward``, and of what it calls, where the graph may not follow Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Literal

from torch import nn

from pytest_exportready.analysis.source.abstract_values import Kind, known
from pytest_exportready.analysis.source.function_source import Source
from pytest_exportready.analysis.source.interpreter import Interpreter

_GRAVEST = ("branch", "number", "state", "size", "loop")


@dataclass(frozen=True)
class Suspect:
    """what: ``branch`` on tensor values, ``number`` taken from them, ``size`` that they tell, ``loop`` over a tensor,
    ``state`` that outlives the call. words: which, without a full stop. sure: False
    behind a condition of which nothing is known. source, scope: the function, and what is known of its names there."""

    file: str
    line: int
    what: Literal["branch", "number", "size", "loop", "state"]
    words: str
    sure: bool
    source: Source
    scope: Mapping[str, Kind]


def suspects(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Suspect]:
    """Each line once, with the gravest, in the order of the program, as called with these example inputs; empty where
    ``forward`` has no source. Nothing is run."""
    found: dict[tuple[str, int], Suspect] = {}

    def tell(source: Source, scope: Mapping[str, Kind], line: int, what: Any, words: str, sure: bool) -> None:
        before = found.get((source.file, line))
        if before is None or _GRAVEST.index(what) < _GRAVEST.index(before.what):
            found[source.file, line] = Suspect(source.file, line, what, words, sure, source, dict(scope))

    forward = getattr(model.forward, "__func__", model.forward)
    if isinstance(forward, FunctionType):
        owner = [known(model)] if hasattr(model.forward, "__func__") else []
        inputs = [*owner, *map(known, args)]
        Interpreter(tell).call(forward, inputs, {name: known(value) for name, value in kwargs.items()}, id(model))
    return list(found.values())
