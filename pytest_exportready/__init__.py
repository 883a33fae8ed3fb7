"""pytest-exportready: proves that a trained PyTorch model survives ``torch.export``.

Importing this package imports neither torch nor jinja2: every public name is loaded on first use. The stub
``__init__.pyi`` lists the names, with the modules that define them.

PYTEST_DONT_REWRITE: in a rank this package is imported before pytest, which would warn about it.
"""

from __future__ import annotations

import ast
import pkgutil
from importlib import import_module
from typing import Any

__version__ = "0.1.0"


def _modules() -> dict[str, str]:
    """Return the module of each public name: what the stub imports ``as`` itself, or annotates with a class."""
    modules: dict[str, str] = {}
    imported: dict[str, str] = {}
    for node in ast.parse(pkgutil.get_data(__name__, "__init__.pyi") or b"").body:
        if isinstance(node, ast.ImportFrom):
            imported |= {alias.name: str(node.module) for alias in node.names}
            modules |= {alias.asname: str(node.module) for alias in node.names if alias.asname}
        elif isinstance(node, ast.AnnAssign) and (annotation := ast.unparse(node.annotation)) in imported:
            modules[ast.unparse(node.target)] = imported[annotation]
    return modules


_MODULES = _modules()

__all__ = ["__version__", *sorted(_MODULES)]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
