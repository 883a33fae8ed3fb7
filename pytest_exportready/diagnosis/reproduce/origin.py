"""The origin of a class or function: installed code is imported, project code is written out."""

from __future__ import annotations

import builtins
import sys
import sysconfig
from types import ModuleType
from typing import Any, NamedTuple

_NAMESPACES = ("torch.nn", "torch", "torch.nn.functional", "torch.Tensor", "math", "operator")
"""Searched first, for things without a module of their own or with a long name."""

_MISSING = object()


class Unreproducible(Exception):
    """Something cannot be written as source; the message says what and why."""


class Imported(NamedTuple):
    """An expression, and the module to import for it."""

    expression: str
    module: str  # empty for builtins


def is_project_module(module: str) -> bool:
    """Return whether a module belongs to the user's project: it is neither part of Python nor installed."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if module == "__main__" or not file:
        return module not in sys.builtin_module_names and module != "builtins" and not _is_namespace(module)
    return not _is_python_file(file) and "site-packages" not in file and not module.startswith("pytest_exportready")


def is_python_module(module: str) -> bool:
    """Return whether a module is part of Python."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return module in sys.builtin_module_names or bool(file and _is_python_file(file) and "site-packages" not in file)


def imported(thing: Any) -> Imported | None:
    """Return how to import an installed class or function; None if it is not installed or no name leads to it."""
    name = getattr(thing, "__name__", "")
    for namespace in _NAMESPACES:
        if isinstance(name, str) and name and _at(namespace, name) is thing:
            return Imported(f"{namespace}.{name}", "torch" if namespace.startswith("torch") else namespace)
    module, path = getattr(thing, "__module__", None), getattr(thing, "__qualname__", "")
    if isinstance(path, str) and getattr(builtins, path, _MISSING) is thing:
        return Imported(path, "")
    if not isinstance(module, str) or not isinstance(path, str) or is_project_module(module):
        return None
    return Imported(f"{module}.{path}", module) if _at(module, path) is thing else None


def _at(module: str, path: str) -> Any:
    found: Any = sys.modules.get(module)
    if found is None:
        owner, _, name = module.rpartition(".")
        found = getattr(sys.modules.get(owner), name, None)
    for part in path.split("."):
        found = getattr(found, part, _MISSING)
    return found


def _is_python_file(file: str) -> bool:
    paths = sysconfig.get_paths()
    return file.startswith(tuple(paths[key] for key in ("stdlib", "platstdlib")))


def _is_namespace(module: str) -> bool:
    """Return whether it is a module without a file in an installed package, such as torch.ops."""
    above = module.partition(".")[0]
    return isinstance(sys.modules.get(module), ModuleType) and above != module and not is_project_module(above)
