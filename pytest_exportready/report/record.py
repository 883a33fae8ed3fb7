"""A Readiness as the JSON text of a JUnit property and back, every type checked: a file may be hostile."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pytest_exportready.finding import Finding
from pytest_exportready.readiness import Readiness, StageResult
from pytest_exportready.report import budget

T = TypeVar("T")

_HINTS: dict[type, dict[str, Any]] = {cls: get_type_hints(cls) for cls in (Readiness, StageResult, Finding)}


def to_text(readiness: Readiness) -> str:
    return budget.compact(readiness.to_dict())


def from_text(text: str) -> Readiness:
    """Raises ValueError that says what is wrong with ``text``."""
    try:
        data = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    data = _known(Readiness, data)
    stages = tuple(_built(StageResult, stage) for stage in _list(data, "stages"))
    findings = tuple(_built(Finding, finding) for finding in _list(data, "findings"))
    checked = tuple(_pair(pair) for pair in _list(data, "checked"))
    prepared = tuple(str(step) for step in _list(data, "prepared"))
    parts = {"stages": stages, "findings": findings, "checked": checked, "prepared": prepared}
    return _built(Readiness, {**data, **parts})


def _built(cls: type[T], data: Any) -> T:
    data = _known(cls, data)
    for key, value in data.items():
        if not _fits(value, _HINTS[cls][key]):
            raise ValueError(f"{cls.__name__}.{key} is a {type(value).__name__}")
    try:
        return cls(**data)
    except TypeError as error:
        raise ValueError(str(error)) from None


def _known(cls: type, data: Any) -> dict[str, Any]:
    """The fields that this version knows; what a later version added is dropped."""
    if not isinstance(data, Mapping):
        raise ValueError(f"{cls.__name__} is a {type(data).__name__}, not an object")
    return {key: data[key] for key in _HINTS[cls] if key in data}


def _fits(value: Any, hint: Any) -> bool:
    origin = get_origin(hint)
    if origin is Literal:
        return value in get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in get_args(hint))
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, origin or hint)


def _list(data: Mapping[str, Any], key: str) -> list[Any]:
    items = data.get(key, [])
    if not isinstance(items, list):
        raise ValueError(f"{key} is a {type(items).__name__}, not a list")
    return items


def _pair(data: Any) -> tuple[str, str]:
    if not (isinstance(data, list) and len(data) == 2):
        raise ValueError("an entry of checked is not a pair")
    return str(data[0]), str(data[1])
