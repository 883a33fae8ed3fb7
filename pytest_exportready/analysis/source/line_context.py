"""The code that runs at a line: its statement, and the functions of the same file that it calls."""

from __future__ import annotations

import ast
import builtins
import linecache
from dataclasses import dataclass
from functools import cache

from pytest_exportready.analysis.source.batch_dataflow import BatchNames, Function

_DEEPEST = 4
_KNOWN = frozenset({"torch", "F", "nn", "math", "functional", "np", "numpy"})  # names of libraries, not of user code


@dataclass(frozen=True)
class Running:
    """The code that runs at a line."""

    parts: tuple[tuple[BatchNames, ast.AST], ...]  # functions, with the part of each that runs
    opaque: bool  # functions of other files run as well


Places = tuple[tuple[str, int], ...]


@cache
def running(places: Places, dim: int | None) -> Running | None:
    """Return what runs at the last of these lines, each of which calls the next; None if a file cannot be read."""
    caller: tuple[BatchNames, ast.AST] | None = None
    found: tuple[ast.Module, BatchNames, ast.AST] | None = None
    for file, line in places:
        tree, function = _function_at(file, line)
        if function is None:
            return None
        given: frozenset[str] = frozenset()
        for call in ast.walk(caller[1]) if caller else ():
            if isinstance(call, ast.Call) and caller:
                given |= caller[0].passed(call, function)
        names = BatchNames(function, dim, given)
        caller = names, names.statement(line)
        found = tree, *caller
    if found is None:
        return None
    parts, opaque = _followed(*found, _DEEPEST)
    return Running(tuple(parts), opaque)


@cache
def _function_at(file: str, line: int) -> tuple[ast.Module, Function | None]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return ast.Module([], []), None
    held = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.Lambda)) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return tree, max(held, key=lambda node: (node.lineno, isinstance(node, ast.Lambda)), default=None)


def _followed(
    tree: ast.Module, names: BatchNames, part: ast.AST, depth: int
) -> tuple[list[tuple[BatchNames, ast.AST]], bool]:
    parts, opaque = [(names, part)], False
    for call in (node for node in ast.walk(part) if isinstance(node, ast.Call)):
        callee = _callee(tree, names.function, call)
        if callee is None or not depth:
            opaque = opaque or not _harmless(call)
        else:
            inner = BatchNames(callee, names.dim, names.passed(call, callee))
            more, unknown = _followed(tree, inner, callee, depth - 1)
            parts, opaque = [*parts, *more], opaque or unknown
    return parts, opaque


def _callee(tree: ast.Module, function: Function, call: ast.Call) -> ast.FunctionDef | None:
    if isinstance(call.func, ast.Name):
        places = [*(function.body if isinstance(function, ast.FunctionDef) else []), *tree.body]
    elif isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "self":
        owners = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and function in node.body]
        places = [statement for owner in owners for statement in owner.body]
    else:
        return None
    name = call.func.id if isinstance(call.func, ast.Name) else call.func.attr
    return next((found for found in places if isinstance(found, ast.FunctionDef) and found.name == name), None)


def _harmless(call: ast.Call) -> bool:
    """Return whether it calls Python, torch, or a method of a value; attributes of ``self`` may be anything."""
    parts = ast.unparse(call.func).split(".")
    if isinstance(call.func, ast.Name):
        return hasattr(builtins, parts[0])
    return parts[0] in _KNOWN or not (parts[0] == "self" and len(parts) == 2)
