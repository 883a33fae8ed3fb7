"""What the code of a module's methods reads and writes, without running it."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from types import CodeType, FunctionType

from torch import nn


@cache
def attributes_read(code: CodeType) -> frozenset[str]:
    """Names of the attributes that ``code``, or a function inside it, reads from whatever object."""
    return _named(code, "LOAD_ATTR", "LOAD_METHOD") | {c for c in code.co_consts if isinstance(c, str)}


@cache
def attributes_written(code: CodeType) -> frozenset[str]:
    """Names of the attributes that ``code``, or a function inside it, assigns."""
    return _named(code, "STORE_ATTR")


@cache
def globals_read(code: CodeType) -> frozenset[str]:
    """Names of the globals, and builtins, that ``code``, or a function inside it, reads."""
    return _named(code, "LOAD_GLOBAL")


@cache
def read_raw(code: CodeType, attribute: str, movers: frozenset[str]) -> bool:
    """Whether ``code`` reads ``attribute`` somewhere without calling a method of ``movers`` on it at once.

    A read into a local variable passes for moved when the code calls such a method on something.
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
    """Code of every method and property of ``kind`` and of its bases below ``nn.Module``, as looked up."""
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
    """Code of ``forward`` and of the methods of ``kind`` whose names it, or what it reaches, mentions."""
    known = methods(kind)
    todo, seen = ["forward"], set()
    while todo:
        name = todo.pop()
        if name in known and name not in seen:
            seen.add(name)
            yield known[name]
            todo += attributes_read(known[name])


def place_of_write(kind: type, attribute: str) -> tuple[str, int]:
    """File and line at which ``forward``, or a method that it reaches, assigns ``attribute``; ``("", 0)`` if none."""
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
