"""Attributes and globals that the bytecode of a module's methods reads and writes."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from types import CodeType, FunctionType

from torch import nn


@cache
def attributes_read(code: CodeType) -> frozenset[str]:
    """Return the attributes that ``code``, or a function inside it, reads from any object."""
    return _named(code, "LOAD_ATTR", "LOAD_METHOD") | {c for c in code.co_consts if isinstance(c, str)}


@cache
def attributes_written(code: CodeType) -> frozenset[str]:
    """Return the attributes that ``code``, or a function inside it, assigns."""
    return _named(code, "STORE_ATTR")


@cache
def globals_read(code: CodeType) -> frozenset[str]:
    """Return the globals and builtins that ``code``, or a function inside it, reads."""
    return _named(code, "LOAD_GLOBAL")


@cache
def read_raw(code: CodeType, attribute: str, movers: frozenset[str]) -> bool:
    """Return whether ``code`` reads ``attribute`` without calling one of the methods ``movers`` on it directly.

    A read into a local variable counts as moved if the code calls such a method on anything.
    """
    moves = bool(attributes_read(code) & movers)
    instructions = list(dis.get_instructions(code))
    for read, following in pairwise(instructions):
        if read.opname in ("LOAD_ATTR", "LOAD_METHOD") and read.argval == attribute:
            to_local = moves and following.opname.startswith("STORE_FAST")
            if following.argval not in movers and not to_local:
                return True
    return any(read_raw(inner, attribute, movers) for inner in code.co_consts if isinstance(inner, CodeType))


def methods(kind: type) -> dict[str, CodeType]:
    """Return the code of every method and property of ``kind`` and its bases below ``nn.Module``, by name."""
    mro = kind.__mro__
    bases = mro[: mro.index(nn.Module)] if nn.Module in mro else mro[:-1]
    found: dict[str, CodeType] = {}
    for base in reversed(bases):
        for name, member in vars(base).items():
            function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if isinstance(function, FunctionType):
                found[name] = function.__code__
    return found


def reached_from_forward(kind: type) -> Iterator[CodeType]:
    """Yield the code of ``forward`` and of the methods of ``kind`` that it mentions, directly or not."""
    known = methods(kind)
    todo, seen = ["forward"], set()
    while todo:
        name = todo.pop()
        if name in known and name not in seen:
            seen.add(name)
            yield known[name]
            todo += attributes_read(known[name])


def place_of_write(kind: type, attribute: str) -> tuple[str, int]:
    """Return file and line where ``forward``, or a method that it reaches, assigns ``attribute``; else ``("", 0)``."""
    for code in reached_from_forward(kind):
        for instruction in dis.get_instructions(code):
            if instruction.opname == "STORE_ATTR" and instruction.argval == attribute and instruction.positions:
                return code.co_filename, instruction.positions.lineno or 0
    return "", 0


def _named(code: CodeType, *operations: str) -> frozenset[str]:
    instructions = dis.get_instructions(code)
    own = {i.argval for i in instructions if i.opname in operations and isinstance(i.argval, str)}
    inner = [_named(constant, *operations) for constant in code.co_consts if isinstance(constant, CodeType)]
    return frozenset(own.union(*inner))
