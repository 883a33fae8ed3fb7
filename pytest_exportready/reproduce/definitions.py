"""The classes and functions of the user that a module runs, as source text that stands alone."""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
import sysconfig
import textwrap
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

_NAMESPACES = ("torch.nn", "torch.nn.functional", "torch", "math", "operator")
"""Where what has no module of its own, or a long one, is looked for first."""


class Unreproducible(Exception):
    """Something cannot be written down as source; the message says what and why."""


class Definitions:
    """Collects what is named, each once, in an order in which it can be run.

    write: gives the expression for a constant that a definition reads. Raises Unreproducible.
    """

    def __init__(self, write: Callable[[Any], str]) -> None:
        self.imports: dict[str, None] = {}
        self.texts: dict[str, str] = {}
        self._write = write
        self._named: dict[str, Any] = {}

    def name_of(self, thing: Any) -> str:
        """The expression that gives ``thing``: a class, a function or a module. Raises Unreproducible."""
        if isinstance(thing, ModuleType):
            if _is_users(thing.__name__):
                raise Unreproducible(f"the module {thing.__name__} is used as a value")
            self.imports[f"import {thing.__name__}"] = None
            return thing.__name__
        for namespace in _NAMESPACES:
            name = getattr(thing, "__name__", "")
            if name and getattr(sys.modules.get(namespace), name, None) is thing:
                self.imports[f"import {namespace}"] = None
                return f"{namespace}.{name}"
        module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", "")
        if getattr(builtins, name, None) is thing:
            return str(name)
        if not module or not name:
            raise Unreproducible(f"a {type(thing).__name__} has no name")
        if not _is_users(module):
            self.imports[f"import {module}"] = None
            return f"{module}.{name}"
        return self._defined(thing, name.rpartition(".")[2])

    def _defined(self, thing: Any, name: str) -> str:
        if name in self._named:
            if self._named[name] is not thing:
                raise Unreproducible(f"two different things are called {name}")
            return name
        if not name.isidentifier():
            raise Unreproducible(f"a lambda in {getattr(thing, '__module__', '?')}")
        self._named[name] = thing
        try:
            source = textwrap.dedent(inspect.getsource(thing))
            tree = ast.parse(source)
        except (OSError, TypeError, SyntaxError, ValueError):
            raise Unreproducible(f"{name} was made at run time and has no source") from None
        text = _without_init(source, tree) if isinstance(thing, type) else source
        self._free_names(thing, ast.parse(text))
        self.texts[name] = text.rstrip()
        return name

    def _free_names(self, thing: Any, tree: ast.Module) -> None:
        """Define what the source reads by name from around it."""
        known = _around(thing)
        for name in dict.fromkeys(_read(tree)):
            if name in known and known[name] is not thing and name not in ("self", "super"):
                self._provide(name, known[name], tree)

    def _provide(self, name: str, value: Any, tree: ast.Module) -> None:
        if name in self._named:
            if self._named[name] is not value:
                raise Unreproducible(f"two different things are called {name}")
            return
        if isinstance(value, ModuleType) and _is_users(value.__name__):
            self._named[name] = value
            used = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and _names(n.value, name)}
            members = ", ".join(f"{each}={self._value(getattr(value, each, None))}" for each in sorted(used))
            self.imports["import types"] = None
            self.texts[name] = f"{name} = types.SimpleNamespace({members})"
            return
        text = self._value(value)
        if text != name:
            self._named[name] = value
            plain = isinstance(value, ModuleType)
            line = f"import {text} as {name}" if plain and "." in text else f"{name} = {text}"
            if plain:
                self.imports.pop(f"import {text}", None)
                self.imports[line if line.startswith("import") else f"import {text}"] = None
            else:
                self.texts[name] = line

    def _value(self, value: Any) -> str:
        if isinstance(value, (type, FunctionType, ModuleType)) or inspect.isbuiltin(value):
            return self.name_of(value)
        return self._write(value)


def _is_users(module: str) -> bool:
    """Whether a module's source has to be written out: it is neither Python's nor installed."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if module == "__main__" or not file:
        return module not in sys.builtin_module_names and module != "builtins"
    paths = sysconfig.get_paths()
    inside = file.startswith(tuple(paths[key] for key in ("stdlib", "purelib", "platlib")))
    return not inside and "site-packages" not in file and not module.startswith("pytest_exportready")


def _around(thing: Any) -> dict[str, Any]:
    """What names mean in the source of a class or function: its module's, and those that functions close over."""
    known = dict(vars(sys.modules.get(thing.__module__, builtins)))
    functions = [thing] if isinstance(thing, FunctionType) else vars(thing).values()
    for function in functions:
        function = inspect.unwrap(getattr(function, "__func__", function))
        if isinstance(function, FunctionType):
            cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
            known.update((name, cell.cell_contents) for name, cell in cells if name != "__class__" and _filled(cell))
    if isinstance(thing, type):  # a class in a function: its bases are in no closure
        known.update((base.__name__, base) for base in thing.__bases__ if base is not object)
    return known


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 (raises when it is empty)
    except ValueError:
        return False
    return True


def _read(tree: ast.Module) -> Iterator[str]:
    """Names that are read and bound nowhere in the source, in the order in which they stand."""
    bound = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    bound |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in bound:
            yield node.id


def _names(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _without_init(source: str, tree: ast.Module) -> str:
    """The source of a class without its ``__init__``, which is not run."""
    (definition,) = tree.body
    assert isinstance(definition, ast.ClassDef)
    inits = [node for node in definition.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    if len(inits) == len(definition.body):
        indent = " " * definition.body[0].col_offset
        return "\n".join([*source.splitlines()[: definition.body[0].lineno - 1], f"{indent}pass"])
    lines = source.splitlines()
    for node in reversed(inits):
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        del lines[first - 1 : node.end_lineno]
    return "\n".join(lines)
