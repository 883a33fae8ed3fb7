"""Build dataclasses from JSON or TOML data, every type checked: a file may be damaged or hostile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from datetime import date, datetime
from functools import cache
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pytest_exportready.report import truncate

T = TypeVar("T")

_ACCEPTED: dict[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    date: "a date, such as 2027-01-31, without quotes",
}


class Misfit(ValueError):
    """Data that does not have the form of a dataclass; the message names the field and what is accepted."""


def built(cls: Callable[..., T], data: Any) -> T:
    """Return ``cls(**data)``.

    Raises:
        Misfit: A field is missing, unknown, or of another type than it declares.
    """
    hints = _hints(cls)
    if not isinstance(data, Mapping):
        raise Misfit(f"must be an object with {', '.join(hints)}, not {type(data).__name__}")
    if not _required(cls) <= data.keys() <= hints.keys():
        problems = [f"missing {name}" for name in hints if name in _required(cls) and name not in data]
        problems += [f"unknown {truncate.line(str(key), 80)}" for key in data if key not in hints]
        raise Misfit(f"{', '.join(problems)}. Accepted keys: {', '.join(hints)}")
    exact = {
        name: given if type(given) is hints[name] else value(given, hints[name], name) for name, given in data.items()
    }
    return cls(**exact)


def known(cls: Callable[..., object], data: Any) -> Any:
    """Return ``data`` without the fields that ``cls`` does not have, which a later version added."""
    return {name: data[name] for name in _hints(cls) if name in data} if isinstance(data, Mapping) else data


def value(given: Any, hint: Any, where: str) -> Any:
    """Return ``given``, with lists as tuples where ``hint`` is a tuple.

    Raises:
        Misfit: It does not have the type ``hint``.
    """
    if type(given) is hint or hint is Any:
        return given
    origin, arguments = _parts(hint)
    if origin is tuple and isinstance(given, (list, tuple)):
        kinds = [arguments[0]] * len(given) if arguments[-1] is Ellipsis else list(arguments)
        if len(kinds) == len(given):
            return tuple(value(one, kind, where) for one, kind in zip(given, kinds, strict=True))
    elif _fits(given, hint, origin, arguments):
        return given
    accepted = "a list" if origin is tuple else _ACCEPTED.get(hint) or str(hint).replace("typing.", "")
    raise Misfit(f"{where} must be {accepted}, not {type(given).__name__}")


def _fits(given: Any, hint: Any, origin: Any, arguments: tuple[Any, ...]) -> bool:
    if origin is Literal:
        return given in arguments
    if origin in (Union, UnionType):
        return any(_fits(given, one, *_parts(one)) for one in arguments)
    if isinstance(given, (bool, datetime)):  # which are an int and a date
        return type(given) is hint
    return isinstance(given, (int, float) if hint is float else origin or hint)


@cache
def _parts(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    return get_origin(hint), get_args(hint)


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls)


@cache
def _required(cls: Any) -> frozenset[str]:
    return frozenset(f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING)
