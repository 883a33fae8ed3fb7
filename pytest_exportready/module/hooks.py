"""Hooks that users registered on modules and parameters, told by function and place."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import torch
from torch import nn

from pytest_exportready.torch_internals import backward_hooks, forward_hooks, gradient_hooks

_OF_TORCH = str(Path(torch.__file__).parent)


class HookPlace(NamedTuple):
    """name: qualified name of the function. file, line: where it is written; empty and 0 when unknown."""

    name: str
    file: str
    line: int


def describe(hook: Callable[..., Any]) -> HookPlace:
    """The place of a hook: of the function itself, of what a partial holds, or of a callable's class."""
    while isinstance(hook, partial):
        hook = hook.func
    function = getattr(hook, "__func__", hook)
    named = inspect.isfunction(function) or inspect.isbuiltin(function)
    name = function.__qualname__ if named else type(function).__qualname__
    code = getattr(function if named else type(function).__call__, "__code__", None)
    if not isinstance(code, CodeType):
        return HookPlace(name, "", 0)
    return HookPlace(name, code.co_filename, code.co_firstlineno)


def users_backward_hooks(model: nn.Module) -> dict[HookPlace, list[str]]:
    """Names of the modules and parameters on whose backward pass each function is hooked."""
    found: dict[HookPlace, list[str]] = {}
    for name, module in model.named_modules():
        for hook in backward_hooks(module):
            found.setdefault(describe(hook), []).append(name)
    for name, parameter in model.named_parameters():
        for hook in gradient_hooks(parameter):
            found.setdefault(describe(hook), []).append(name)
    return found


def users_forward_hooks(model: nn.Module) -> dict[HookPlace, list[str]]:
    """Names of the modules on whose forward pass each function is hooked; torch's own are not told."""
    found: dict[HookPlace, list[str]] = {}
    for name, module in model.named_modules():
        for hook in forward_hooks(module):
            place = describe(hook)
            if not place.file.startswith(_OF_TORCH):
                found.setdefault(place, []).append(name)
    return found
