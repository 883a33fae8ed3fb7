"""The ``torch.autograd.Function`` classes that a forward can reach."""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch
from torch import nn

from pytest_exportready.analysis.torch_internals.modules import plain_attributes

MOST = 3000  # functions examined for one class of modules


def autograd_functions(model: nn.Module) -> dict[type, str]:
    """Return each class with the name of the first module that mentions it. Nothing is run.

    Mentioned in ``forward``, in a user function that it calls, or as an attribute of the module.
    """
    found: dict[type, str] = {}
    for name, module in model.named_modules():
        kept = [_function_of(value) for value in plain_attributes(module).values()]
        kind: Any = type(module)
        for function in [*_reached_from(kind)[0], *(f for f in kept if f is not None)]:
            found.setdefault(function, name)
    return found


def lines_reading(model: nn.Module, attribute: str) -> list[tuple[str, int]]:
    """Return file and line of every read of ``attribute``, of any object, that forward can reach."""
    lines: dict[tuple[str, int], None] = {}
    kinds: dict[Any, None] = dict.fromkeys(type(module) for module in model.modules())
    for kind in kinds:
        for code in _reached_from(kind)[1]:
            starts, line = dict(dis.findlinestarts(code)), 0
            for instruction in dis.get_instructions(code):
                line = starts.get(instruction.offset) or line
                if instruction.opname == "LOAD_ATTR" and instruction.argval == attribute:
                    lines[code.co_filename, line] = None
    return list(lines)


@cache
def _reached_from(kind: type) -> tuple[tuple[type, ...], tuple[CodeType, ...]]:
    """Return the autograd functions, and the code of all functions, that methods of ``kind`` can reach."""
    functions: dict[type, None] = {}
    codes: dict[CodeType, None] = {}
    todo: list[Any] = list(_methods(kind))
    seen: set[int] = set()
    while todo and len(seen) < MOST:
        item = todo.pop()
        item = getattr(item, "__func__", item)
        item = inspect.unwrap(item) if callable(item) else item
        if id(item) in seen:
            continue
        seen.add(id(item))
        function = _function_of(item)
        if function is not None:
            functions[function] = None
            todo.append(vars(function).get("forward"))
        elif isinstance(item, FunctionType) and not _is_torchs(item):
            codes[item.__code__] = None
            todo += _reached(item)
    return tuple(functions), tuple(codes)


def _methods(kind: type) -> Iterator[Any]:
    """Yield the members of ``kind`` except ``__init__``; overridden ones too if a method calls ``super()``."""
    bases = [base for base in kind.__mro__ if base is not object and not _is_torchs(base)]
    members = [(name, member) for base in bases for name, member in vars(base).items() if name != "__init__"]
    nearest = dict(reversed(members))
    codes = [member.__code__ for member in nearest.values() if isinstance(member, FunctionType)]
    if any("super" in code.co_names for code in codes):
        yield from (member for _, member in members)
    else:
        yield from nearest.values()


def _function_of(item: Any) -> type | None:
    """Return the class, or the class whose ``apply`` this is; None for anything else and for torch's classes."""
    item = getattr(item, "__self__", item) if getattr(item, "__name__", "") == "apply" else item
    if not isinstance(item, type) or not issubclass(item, torch.autograd.Function):
        return None
    return None if _is_torchs(item) else item


def _is_torchs(item: Any) -> bool:
    """Return whether a class or function belongs to torch or Python."""
    package = str(item.__module__).split(".")[0]
    return package == "torch" or package in sys.stdlib_module_names


def _reached(function: FunctionType) -> Iterator[Any]:
    """Yield functions and classes that ``function`` names: globals, attributes of Python modules, its closure."""
    names = _names(function.__code__)
    for name in names & function.__globals__.keys():
        value = function.__globals__[name]
        if isinstance(value, ModuleType):
            yield from (vars(value)[inner] for inner in names & vars(value).keys())
        elif callable(value):
            yield value
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # a cell not filled yet
            continue


def _names(code: CodeType) -> set[str]:
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*inner)
