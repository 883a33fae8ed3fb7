"""Where a thing comes from: installed code is imported by name, the user's is written out."""

from __future__ import annotations

import builtins
import sys
import sysconfig
from types import ModuleType
from typing import Any, NamedTuple

_NAMESPACES = ("torch.nn", "torch", "torch.nn.functional", "torch.Tensor", "math", "operator")
"""Where what has no module of its own, or a long one, is looked for first."""

_MISSING = object()


class Unreproducible(Exception):
    """Something cannot be written down as source; the message says what and why."""


class Imported(NamedTuple):
    """expression: gives the thing once ``module`` is imported; module is empty for what is built in."""

    expression: str
    module: str


def is_users(module: str) -> bool:
    """Whether a module's source has to be written out: it is neither Python's nor installed."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if module == "__main__" or not file:
        return module not in sys.builtin_module_names and module != "builtins" and not _is_namespace(module)
    return not _is_pythons(file) and "site-packages" not in file and not module.startswith("pytest_exportready")


def is_pythons(module: str) -> bool:
    """Whether a module belongs to Python itself."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return module in sys.builtin_module_names or bool(file and _is_pythons(file) and "site-packages" not in file)


def imported(thing: Any) -> Imported | None:
    """How to name a class or function that is installed; None for what is not, and for what no name leads to."""
    name = getattr(thing, "__name__", "")
    for namespace in _NAMESPACES:
        if isinstance(name, str) and name and _at(namespace, name) is thing:
            return Imported(f"{namespace}.{name}", "torch" if namespace.startswith("torch") else namespace)
    module, path = getattr(thing, "__module__", None), getattr(thing, "__qualname__", "")
    if isinstance(path, str) and getattr(builtins, path, _MISSING) is thing:
        return Imported(path, "")
    if not isinstance(module, str) or not isinstance(path, str) or is_users(module):
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


def _is_pythons(file: str) -> bool:
    paths = sysconfig.get_paths()
    return file.startswith(tuple(paths[key] for key in ("stdlib", "platstdlib")))


def _is_namespace(module: str) -> bool:
    """torch.ops, and what else is a module without a file, in an installed package."""
    above = module.partition(".")[0]
    return isinstance(sys.modules.get(module), ModuleType) and above != module and not is_users(above)
