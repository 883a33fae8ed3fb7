"""The project's classes and functions that a module runs, as source text that runs alone."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from pytest_exportready.analysis.torch_internals.operators import (
    custom_operator,
    functions_of_operator,
    is_custom_operator,
)
from pytest_exportready.diagnosis.reproduce import source
from pytest_exportready.diagnosis.reproduce.origin import Unreproducible, imported, is_project_module

_RESERVED = ("model", "args", "kwargs", "dynamic_shapes", "hollow", "weight", "torch")
_ALL = frozenset({"getattr", "vars", "__dict__", "asdict", "astuple", "fields", "replace", "__getstate__"})
"""Names of what reads attributes without naming them."""


class Definitions:
    """Collect definitions, each once, and pass them to ``step`` in an order in which they can run.

    Args:
        write: Returns the expression for a constant that a definition reads; may raise Unreproducible.
        step: Receives source to run.
    """

    def __init__(self, write: Callable[[Any], str], step: Callable[[str], None]) -> None:
        self.imports: dict[str, None] = {}
        self._write = write
        self._step = step
        self._named: dict[str, Any] = dict.fromkeys(_RESERVED, _RESERVED)
        self._texts: dict[str, str] = {}
        self._attributes: set[tuple[str, ...]] = set()
        self._read: set[str] = set()
        self._unfinished: set[int] = set()

    def reads(self, attribute: str) -> bool:
        """Return whether anything collected so far may read an attribute of this name."""
        return attribute in self._read or bool(_ALL & self._read)

    def is_unfinished(self, thing: Any) -> bool:
        """Return whether ``thing`` is being written, so that no statement can use it yet."""
        return id(thing) in self._unfinished

    def is_taken(self, name: str) -> bool:
        return name in self._named

    def take(self, name: str) -> None:
        """Reserve ``name`` for a variable."""
        self._named.setdefault(name, _RESERVED)

    def name_of(self, thing: Any, *, made: bool = False) -> str:
        """Return the expression for a class, a function, an operator or a module. Raise Unreproducible.

        Args:
            made: The script creates instances of this class by calling it, not only from their state.
        """
        if isinstance(thing, ModuleType):
            if is_project_module(thing.__name__):
                raise Unreproducible(f"module {thing.__name__} is used as a value")
            self.imports[f"import {thing.__name__}"] = None
            return thing.__name__
        found = imported(thing)
        if found is not None:
            if found.module:
                self.imports[f"import {found.module}"] = None
            return found.expression
        if is_custom_operator(thing):
            return self._operator(thing)
        if not isinstance(thing, (type, FunctionType)):
            raise Unreproducible(f"a {type(thing).__name__} has no name")
        if not is_project_module(thing.__module__ or ""):
            raise Unreproducible(f"{thing.__module__}.{thing.__qualname__} was made at run time and has no name")
        if thing.__name__ == "<lambda>":
            return self._lambda(thing)
        return self._defined(thing, thing.__name__, made)

    def _operator(self, operator: Any) -> str:
        functions = functions_of_operator(operator)
        name = functions[0].__name__
        if self._is_new(name, operator):
            for function in functions:
                text = source.of_definition(function, name)
                self._annotations(function, text)
                self._collect(function, text)
        return name

    def _annotations(self, function: Callable[..., Any], text: str) -> None:
        known = source.around(function)
        for name in source.read_in_annotations(text):
            if isinstance(known.get(name), (ModuleType, type)):
                self._provide(name, known[name], text)

    def _lambda(self, thing: Any) -> str:
        text = source.of_lambda(thing)
        self._provide_for(thing, text)
        return text

    def _defined(self, thing: Any, name: str, made: bool) -> str:
        if not self._is_new(name, thing):
            return name
        if hasattr(thing, "_fields") and vars(thing).get("__orig_bases__") is None and thing.__bases__ == (tuple,):
            self.imports["import collections"] = None
            self._step(f"{name} = collections.namedtuple({name!r}, {thing._fields!r})")
            return name
        text = source.of_definition(thing, name)
        if isinstance(thing, type) and not made:
            text = source.without_init(text)
        self._collect(thing, text)
        return name

    def _collect(self, thing: Any, text: str) -> None:
        self._unfinished.add(id(thing))
        text, bound = source.without_local_imports(text, thing.__module__)
        self._provide_for(thing, text, bound)
        self._unfinished.discard(id(thing))
        self._step(text)

    def _is_new(self, name: str, thing: Any) -> bool:
        """Return whether ``name`` is not yet defined. Raise Unreproducible if it is something else."""
        if name in self._named and self._named[name] is not thing:
            raise Unreproducible(f"two different things are called {name}")
        new = name not in self._named
        self._named[name] = thing
        return new

    def _provide_for(self, thing: Any, text: str, bound: dict[str, Any] | None = None) -> None:
        """Define the names that the source reads from outside."""
        self._read |= source.identifiers(text)
        for namespace, name in re.findall(r"\btorch\.ops\.(\w+)\.(\w+)", text):
            operator = custom_operator(f"{namespace}::{name}")
            if operator is not None and is_project_module(functions_of_operator(operator)[0].__module__):
                self._operator(operator)
        known = {**source.around(thing), **(bound or {})}
        for name in source.read_from_around(text):
            value = known.get(name, known)
            if value is not known and value is not thing and not _is_dunder(name) and not _is_builtin(name, value):
                self._provide(name, value, text)

    def _provide(self, name: str, value: Any, text: str) -> None:
        if isinstance(value, ModuleType) and is_project_module(value.__name__):
            self._namespace((name,), value, text)
        elif isinstance(value, ModuleType):
            line = f"import {value.__name__}" if value.__name__ == name else f"import {value.__name__} as {name}"
            if name != "torch" and self._is_new(name, value):
                self.imports[line] = None
        elif isinstance(value, (type, FunctionType)) or inspect.isbuiltin(value) or is_custom_operator(value):
            expression = self.name_of(value, made=source.calls(text, name))
            if expression != name and self._is_new(name, value):
                self._step(f"{name} = {expression}")
        else:
            self._constant(name, value)

    def _constant(self, name: str, value: Any) -> None:
        if self._named.get(name, self) is value:
            return
        if name not in self._named:
            self._named[name] = value  # before it is written, since it may contain what reads it
        text = self._write(value)
        if name in self._texts and self._texts[name] == text:
            return  # equal constants of two modules
        if self._named[name] is not value:
            raise Unreproducible(f"two different things are called {name}")
        self._texts[name] = text
        self._step(f"{name} = {text}")

    def _namespace(self, path: tuple[str, ...], module: ModuleType, text: str) -> None:
        """Define a project module whose attributes the source reads."""
        if path not in self._attributes:
            if len(path) == 1:
                self._is_new(path[0], module)
            self._attributes.add(path)
            self.imports["import types"] = None
            self._step(f"{'.'.join(path)} = types.SimpleNamespace()")
        for attribute in _attributes_of(path, text):
            value, inner = getattr(module, attribute, None), (*path, attribute)
            if isinstance(value, ModuleType) and is_project_module(value.__name__):
                self._namespace(inner, value, text)
            elif inner not in self._attributes:
                self._attributes.add(inner)
                self._step(f"{'.'.join(inner)} = {self._value(value)}")

    def _value(self, value: Any) -> str:
        if isinstance(value, (type, FunctionType, ModuleType)) or inspect.isbuiltin(value):
            return self.name_of(value, made=True)
        return self._write(value)


def _attributes_of(path: tuple[str, ...], text: str) -> list[str]:
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)]
    return sorted({node.attr for node in nodes if ast.unparse(node.value) == ".".join(path)})


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _is_builtin(name: str, value: Any) -> bool:
    return getattr(builtins, name, None) is value and value is not None
