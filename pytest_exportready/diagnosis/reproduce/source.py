"""Source text of a class, function or lambda, and the names that it reads from outside."""

from __future__ import annotations

import ast
import builtins
import functools
import importlib.util
import inspect
import symtable
import sys
import textwrap
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

from pytest_exportready.diagnosis.reproduce.origin import Unreproducible, is_project_module

FUTURE = "from __future__ import annotations"
"""Annotations are not evaluated, so nothing has to be defined for them."""


def of_definition(thing: Any, name: str) -> str:
    """Return the source of a class or function with its decorators. Raise Unreproducible."""
    try:
        source = textwrap.dedent(inspect.getsource(thing))
        ast.parse(source)
    except (OSError, TypeError, SyntaxError, ValueError, IndexError):
        raise Unreproducible(f"{name} was made at run time and has no source") from None
    return source.rstrip()


def of_lambda(thing: FunctionType) -> str:
    """Return the source of a lambda, in brackets. Raise Unreproducible if its line has several equal ones."""
    place = f"a lambda in {thing.__module__}, line {thing.__code__.co_firstlineno}"
    try:
        text = "".join(inspect.findsource(thing)[0])
        tree = ast.parse(text)
    except (OSError, TypeError, SyntaxError, ValueError, IndexError):
        raise Unreproducible(f"{place}, has no source") from None
    line = thing.__code__.co_firstlineno
    found = {
        f"({segment})"
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda) and node.lineno == line
        if (segment := ast.get_source_segment(text, node)) and _is_code_of(segment, thing.__code__)
    }
    if len(found) != 1:
        raise Unreproducible(f"{place}, cannot be distinguished from others in its line")
    return found.pop()


def _is_code_of(segment: str, code: CodeType) -> bool:
    try:
        compiled = compile(f"({segment})", "", "eval")
    except SyntaxError:
        return False
    made = next(const for const in compiled.co_consts if isinstance(const, CodeType))
    if code.co_freevars:  # read as globals when it stands alone: other instructions
        return made.co_varnames == code.co_varnames and {*made.co_names} == {*code.co_names, *code.co_freevars}
    return (made.co_code, made.co_consts, made.co_names) == (code.co_code, code.co_consts, code.co_names)


def without_init(source: str) -> str:
    """Return the source of a class without its ``__init__``, which is not run."""
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    inits = [node for node in definition.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    lines = source.splitlines()
    if len(inits) == len(definition.body):
        indent = " " * definition.body[0].col_offset
        return "\n".join([*lines[: _first_line(definition.body[0]) - 1], f"{indent}pass"])
    for node in reversed(inits):
        del lines[_first_line(node) - 1 : node.end_lineno]
    return "\n".join(lines)


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def without_local_imports(source: str, module: str) -> tuple[str, dict[str, Any]]:
    """Return ``source`` without its imports of project modules, and the names that they would bind."""
    package = getattr(sys.modules.get(module), "__package__", None) or ""
    lines = source.splitlines()
    bound: dict[str, Any] = {}
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.Import, ast.ImportFrom))]
    for node in reversed(imports):
        given = dict(_bound_by(node, package))
        if not given:
            continue
        bound |= given
        indent = lines[node.lineno - 1][: node.col_offset]
        if indent.strip() or ";" in lines[(node.end_lineno or node.lineno) - 1]:
            raise Unreproducible(f"an import of a project module shares its line: {lines[node.lineno - 1].strip()}")
        lines[node.lineno - 1 : node.end_lineno] = [f"{indent}pass"]
    return "\n".join(lines), bound


def _bound_by(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[tuple[str, Any]]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            if is_project_module(alias.name) and alias.name in sys.modules:
                name = alias.asname or alias.name.partition(".")[0]
                yield name, sys.modules[alias.name if alias.asname else name]
        return
    try:
        module = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
    except ImportError:
        return
    if not is_project_module(module) or module not in sys.modules:
        return
    for alias in node.names:
        value = getattr(sys.modules[module], alias.name, sys.modules.get(f"{module}.{alias.name}"))
        yield alias.asname or alias.name, value


def read_from_around(source: str) -> list[str]:
    """Return the names that ``source`` reads and does not bind, except in annotations."""
    table = symtable.symtable(f"{FUTURE}\n{source}", "<source>", "exec")
    return sorted(set(_read(table, outermost=True)))


def read_in_annotations(source: str) -> list[str]:
    """Return the names that annotations read; inferring the schema of an operator evaluates them."""
    nodes = list(ast.walk(ast.parse(source)))
    found = [getattr(node, key, None) for node in nodes for key in ("annotation", "returns")]
    return sorted({name.id for node in found if node for name in ast.walk(node) if isinstance(name, ast.Name)})


def calls(source: str, name: str) -> bool:
    """Return whether ``source`` calls ``name``, as it does to create an instance."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return any(isinstance(node.func, ast.Name) and node.func.id == name for node in nodes)


def _read(table: symtable.SymbolTable, outermost: bool = False) -> Iterator[str]:
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (symbol.is_global() or (outermost and not symbol.is_assigned())):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _read(child)


def around(thing: Any) -> dict[str, Any]:
    """Return the values of names in the source of a class or function: globals of its module, and closures."""
    known = dict(vars(sys.modules.get(thing.__module__, builtins)))
    functions = [thing] if isinstance(thing, FunctionType) else list(vars(thing).values())
    for function in functions:
        function = inspect.unwrap(getattr(function, "__func__", function))
        for accessor in ("fget", "func"):
            function = getattr(function, accessor, function) if not isinstance(function, FunctionType) else function
        if isinstance(function, FunctionType):
            known |= function.__globals__ if isinstance(thing, FunctionType) else {}
            cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
            known.update((name, cell.cell_contents) for name, cell in cells if name != "__class__" and _filled(cell))
    if isinstance(thing, type):  # the bases of a class in a function are not in a closure
        known.update((base.__name__, base) for base in thing.__bases__ if base is not object)
    return known


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 (raises when it is empty)
    except ValueError:
        return False
    return True


@functools.cache
def identifiers(source: str) -> frozenset[str]:
    """Return every name, attribute and string in ``source``; it reads no attribute of another name."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return frozenset(found)


@functools.cache
def identifiers_of_module(module: str) -> frozenset[str]:
    """Return the ``identifiers`` of a module's file."""
    return identifiers(inspect.getsource(sys.modules[module]))
