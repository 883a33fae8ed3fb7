"""Plain values as expressions, without possibly private text and without tensor contents."""

from __future__ import annotations

import logging
import os
import re
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, TypeVar

import torch
from torch.export import Dim

_LITERAL = (type(None), bool, int, bytes, complex, type(Ellipsis), type(NotImplemented))
_SECRET = re.compile(r"(?i)token|secret|passw|credential|api_?key|auth|private|cookie")
_SHORTEST = 6
"""Characters. Shorter values are not secrets, and occur in many texts by chance."""
_PLACE = re.compile(r"(?:[a-z]+://[^\s/]*|(?<![\w.])~?|[A-Za-z]:)(?:[/\\][^/\\\s:'\"]+){2,}")
"""A path of this machine, or an address."""
_STRING = re.compile(r"(['\"])([^'\"\n]*)\1")


def without_places(text: str) -> str:
    """Return ``text`` with paths shortened to their last part, and without secrets of the environment."""
    for secret in _secrets():
        text = text.replace(secret, "...")
    home = os.path.expanduser("~")
    text = text.replace(home, "~") if len(home) > 1 else text
    return _PLACE.sub(lambda found: re.split(r"[/\\]", found[0])[-1], text)


def without_places_in_strings(source: str) -> str:
    """Return ``source`` with the paths in its strings shortened to their last part."""
    return _STRING.sub(lambda found: found[1] + without_places(found[2]) + found[1], source)


def _secrets() -> list[str]:
    return [value for name, value in os.environ.items() if _SECRET.search(name) and len(value) >= _SHORTEST]


def literal(value: Any) -> str | None:
    """Return the expression for a value without parts and without a name; None for any other."""
    kind = type(value)
    if kind in _LITERAL:
        return repr(value)
    if kind is str:
        return repr(without_places(value))
    if kind is float:
        return repr(value) if abs(value) < float("inf") else f'float("{value}")'
    if kind in (torch.dtype, torch.layout, torch.memory_format):
        return str(value)
    if kind is torch.device:
        return f'torch.device("{value}")'
    if kind.__module__ == "torch._ops":  # a packet of operators, or one of its overloads
        return f"torch.ops.{value}"
    for hint in ("AUTO", "DYNAMIC", "STATIC"):
        if value is getattr(Dim, hint, None):
            return f"torch.export.Dim.{hint}"
    if kind is Dim:
        bounds = [f"{key}={getattr(value, key)}" for key in ("min", "max") if isinstance(getattr(value, key), int)]
        return f"torch.export.Dim({', '.join([repr(value.__name__), *bounds])})"
    return None


def written(value: Any, text: Callable[[Any], str], imports: dict[str, None]) -> str | None:
    """Return the expression for a container or another value of a Python class; None for any other.

    Args:
        text: Returns the expression for a part.
        imports: Receives the import statements that the expression needs.
    """
    kind = type(value)
    found = _containers().get(kind)
    if found is not None:
        return found(value, text)
    if kind in (range, slice):
        return f"{kind.__name__}({text(value.start)}, {text(value.stop)}, {text(value.step)})"
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return f"{text(kind)}({', '.join(map(text, value))})"
    name, expression = _of_library(value, text)
    if name:
        imports[f"import {name}"] = None
    return expression


@cache
def _containers() -> Mapping[type, Callable[[Any, Callable[[Any], str]], str]]:
    def sequence(opening: str, closing: str) -> Callable[[Any, Callable[[Any], str]], str]:
        return lambda value, text: f"{opening}{', '.join(map(text, value))}{closing}"

    def mapping(value: Any, text: Callable[[Any], str]) -> str:
        return f"{{{', '.join(f'{text(key)}: {text(item)}' for key, item in value.items())}}}"

    return {
        tuple: lambda value, text: f"({', '.join(map(text, value))}{',' if len(value) == 1 else ''})",
        list: sequence("[", "]"),
        set: sequence("set([", "])"),
        frozenset: sequence("frozenset([", "])"),
        torch.Size: sequence("torch.Size([", "])"),
        dict: mapping,
    }


def _of_library(value: Any, text: Callable[[Any], str]) -> tuple[str, str | None]:
    """Return the module, of Python or NumPy, and the expression."""
    kind = type(value)
    if kind is OrderedDict:
        return "collections", f"collections.OrderedDict({text(dict(value))})"
    if kind is defaultdict:
        return "collections", f"collections.defaultdict({text(value.default_factory)}, {text(dict(value))})"
    if kind is deque:
        return "collections", f"collections.deque({text(list(value))}, {value.maxlen})"
    if kind is partial:
        given = [text(item) for item in (value.func, *value.args)]
        given += [f"{key}={text(item)}" for key, item in value.keywords.items()]
        return "functools", f"functools.partial({', '.join(given)})"
    if kind is SimpleNamespace:
        return "types", f"types.SimpleNamespace(**{text(vars(value))})"
    if kind is TypeVar:
        return "typing", f"typing.TypeVar({value.__name__!r})"
    if kind is re.Pattern:
        return "re", f"re.compile({value.pattern!r}, {value.flags})"
    if isinstance(value, logging.Logger):
        return "logging", 'logging.getLogger("reproduce")'
    if kind.__module__ == "numpy":
        return _of_numpy(value)
    return "", None


def _of_numpy(value: Any) -> tuple[str, str | None]:
    """Return scalars unchanged, and arrays of ones or zeros."""
    import numpy as np

    if isinstance(value, np.ndarray) and value.dtype.kind in "fciub":
        fill = "ones" if value.dtype.kind in "fc" else "zeros"
        return "numpy", f'numpy.{fill}({list(value.shape)}, dtype="{value.dtype}")'
    if isinstance(value, np.generic) and value.dtype.kind in "fciub":
        return "numpy", f"numpy.{value.dtype.type.__name__}({value.item()!r})"
    return "", None
