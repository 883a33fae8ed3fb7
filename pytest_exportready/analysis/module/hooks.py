"""Find the hooks that users registered on modules and parameters, by function and place."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import torch
from torch import nn

from pytest_exportready.analysis.torch_internals.hooks import (
    backward_hooks,
    forward_hook_tables,
    forward_hooks,
    gradient_hooks,
)

_OF_TORCH = str(Path(torch.__file__).parent)


class HookPlace(NamedTuple):
    """Where the function of a hook is defined."""

    name: str  # qualified name of the function
    file: str  # empty if unknown
    line: int  # 0 if unknown


def describe(hook: Callable[..., Any]) -> HookPlace:
    """Return the place of a hook: of the function itself, the function of a partial, or the class of a callable."""
    while isinstance(hook, partial):
        hook = hook.func
    function = getattr(hook, "__func__", hook)
    named = inspect.isfunction(function) or inspect.isbuiltin(function)
    name = function.__qualname__ if named else type(function).__qualname__
    code = getattr(function if named else type(function).__call__, "__code__", None)
    if not isinstance(code, CodeType):
        return HookPlace(name, "", 0)
    return HookPlace(name, code.co_filename, code.co_firstlineno)


def is_of_torch(place: HookPlace) -> bool:
    return place.file.startswith(_OF_TORCH)


def user_backward_hooks(model: nn.Module) -> dict[HookPlace, list[str]]:
    """Return for each function the modules and parameters that have it as a backward hook."""
    found: dict[HookPlace, list[str]] = {}
    for name, module in model.named_modules():
        for hook in backward_hooks(module):
            found.setdefault(describe(hook), []).append(name)
    for name, parameter in model.named_parameters():
        for hook in gradient_hooks(parameter):
            found.setdefault(describe(hook), []).append(name)
    return found


def user_forward_hooks(model: nn.Module) -> dict[HookPlace, list[str]]:
    """Return for each function, except those of torch, the modules that have it as a forward hook."""
    found: dict[HookPlace, list[str]] = {}
    for name, module in model.named_modules():
        for hook in forward_hooks(module):
            place = describe(hook)
            if not is_of_torch(place):
                found.setdefault(place, []).append(name)
    return found


@dataclass(frozen=True, eq=False)
class UserHook:
    """One forward hook that is not of torch."""

    name: str  # of its module; ``every module`` for a global one
    function: Callable[..., Any]
    place: HookPlace
    before: bool  # whether it runs before ``forward``
    table: dict[int, Callable[..., Any]]  # where it is registered, under ``key``
    key: int
    owned: bool  # whether it is defined in the class of one of the model's modules


def user_hooks(model: nn.Module) -> list[UserHook]:
    """Return the forward and pre-forward hooks of the modules, and those registered for every module."""
    tables = [("every module", forward_hook_tables(None))]
    tables += [(name, forward_hook_tables(module)) for name, module in model.named_modules()]
    found = [
        (name, kind, table, key, hook)
        for name, kinds in tables
        for kind, table in kinds.items()
        for key, hook in table.items()
    ]
    classes = {type(module).__name__ for module in model.modules()} if found else set()
    return [
        UserHook(name, hook, place, kind == "before", table, key, not classes.isdisjoint(place.name.split(".")[:-1]))
        for name, kind, table, key, hook in found
        if not is_of_torch(place := describe(hook))
    ]
