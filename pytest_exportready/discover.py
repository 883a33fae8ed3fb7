"""Find the one object that each module of a package declares: a check, stage, scenario, command ..."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")


class DiscoveryError(RuntimeError):
    """A module of a package of checks, stages, ... does not declare its object."""


def module_names(package: ModuleType) -> list[str]:
    """Return the sorted names of the modules of ``package`` that declare an object, without importing them."""
    return sorted(m.name for m in pkgutil.iter_modules(package.__path__) if not m.ispkg and not m.name.startswith("_"))


def discover(package: ModuleType, name: str, kind: type[T]) -> dict[str, T]:
    """Import each module of ``package`` and return its object called ``name``, sorted by module name.

    Raises:
        DiscoveryError: a module does not declare an object of that name and kind; the message names the file.
    """
    return {module_name: declared_in(package, module_name, name, kind) for module_name in module_names(package)}


def declared_in(package: ModuleType, module_name: str, name: str, kind: type[T]) -> T:
    """Import one module of ``package`` and return its object called ``name``.

    Raises:
        DiscoveryError: the module does not declare an object of that name and kind; the message names the file.
    """
    module = import_module(f"{package.__name__}.{module_name}")
    declared = getattr(module, name, None)
    if not isinstance(declared, kind):
        raise DiscoveryError(
            f"{module.__file__} does not declare `{name} = {kind.__name__}(...)`. "
            f"Fix: Declare it, or start the file name with an underscore."
        )
    return declared
