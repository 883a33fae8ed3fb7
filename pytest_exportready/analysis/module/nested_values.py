"""Find tensors and modules inside the values of plain attributes: lists, dicts and objects of user classes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import nn

_ATOMS = frozenset({bool, int, float, str, bytes, type(None), torch.dtype, torch.device})
_NO_STATE = (type, FunctionType, MethodType, ModuleType)


def user_packages(model: nn.Module) -> frozenset[str]:
    """Return the top-level packages of the modules' classes, except torch."""
    return frozenset({type(module).__module__.split(".")[0] for module in model.modules()} - {"torch"})


def inside(
    value: Any, packages: Collection[str], functions: bool = False
) -> Iterator[tuple[str, torch.Tensor | nn.Module]]:
    """Yield every tensor and module in ``value`` with its place (``[0]``, ``['mean']``, ``.stats.mean``).

    Lists, tuples, dicts and objects of a class from ``packages`` are searched, but not modules.

    Args:
        functions: Also search what functions have: closures, defaults, partial arguments, the object of a method.
    """
    todo: list[tuple[str, Any]] = [("", value)]
    seen: set[int] = set()
    while todo:
        place, item = todo.pop()
        if type(item) in _ATOMS:
            continue
        if isinstance(item, (torch.Tensor, nn.Module)):
            yield place, item
        elif id(item) not in seen:
            seen.add(id(item))
            parts = _parts(item, packages) or (_kept_by(item) if functions else [])
            todo += reversed([(place + step, part) for step, part in parts])


def _parts(item: Any, packages: Collection[str]) -> list[tuple[str, Any]]:
    if isinstance(item, (list, tuple)):
        return [(f"[{position}]", part) for position, part in enumerate(item)]
    if isinstance(item, dict):
        return [(f"[{key!r}]", part) for key, part in item.items()]
    own = hasattr(item, "__dict__") and not isinstance(item, _NO_STATE)
    if own and type(item).__module__.split(".")[0] in packages:
        return [(f".{name}", part) for name, part in vars(item).items()]
    return []


def _kept_by(function: Any) -> list[tuple[str, Any]]:
    if isinstance(function, partial):
        given = [(f"[{position}]", part) for position, part in enumerate(function.args)]
        return [("", function.func), *given, *((f".{name}", part) for name, part in function.keywords.items())]
    if isinstance(function, MethodType):
        return [(".__self__", function.__self__)]
    if not isinstance(function, FunctionType):
        return []
    closure = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    kept = [(f".{name}", cell.cell_contents) for name, cell in closure if _filled(cell)]
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return kept + [(f".default[{position}]", part) for position, part in enumerate(defaults)]


def _filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
