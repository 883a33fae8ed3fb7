"""Hash the code that a case runs: the user's files that it can reach, this package, installed distributions."""

from __future__ import annotations

import ast
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import distributions
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType

import xxhash

from pytest_exportready.analysis.program.canonical_form import digest

_OURS = Path(__file__).parents[2]


def code_fingerprint(modules: Iterable[str]) -> str:
    """Return a hash of the files of ``modules`` and of all loaded modules that they import, anywhere in them.

    Every file of this package is included. Installed distributions and the standard library count by version.
    """
    files = [(name, _file(path)) for name, path in sorted(_reached(modules))]
    return digest(installed_fingerprint(), _ours(), files)


@cache
def installed_fingerprint() -> str:
    """Return a hash of the versions of Python and of every installed distribution."""
    return digest(sys.version, sorted((str(each.metadata["Name"]), each.version) for each in distributions()))


def _reached(modules: Iterable[str]) -> set[tuple[str, str]]:
    found: dict[str, str] = {}
    pending = list(modules)
    while pending:
        name = pending.pop()
        path = getattr(sys.modules.get(name), "__file__", None) or ""
        if name not in found and path and not path.startswith(_not_hashed()):
            found[name] = path
            pending += _named_in(sys.modules[name], path)
    return set(found.items())


def _named_in(module: ModuleType, path: str) -> Iterator[str]:
    """Yield the modules that ``module`` imports, also in functions, and those that define its names."""
    yield from _imports(path, module.__name__ if hasattr(module, "__path__") else module.__name__.rpartition(".")[0])
    for value in list(vars(module).values()):
        yield value.__name__ if isinstance(value, ModuleType) else str(getattr(value, "__module__", ""))


@cache
def _imports(path: str, package: str) -> tuple[str, ...]:
    try:
        tree = ast.parse(Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ()  # a compiled extension
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            base = resolve_name(base, package) if node.level and package else base
            found += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    parents = [name.rsplit(".", count)[0] for name in found for count in range(1, name.count(".") + 1)]
    return tuple({*found, *parents})


@cache
def _not_hashed() -> tuple[str, ...]:
    """Return the folders whose files count by version, or as a whole."""
    installed = [sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib")]
    return (*installed, str(_OURS))


@cache
def _ours() -> str:
    return digest([(path.name, _file(str(path))) for path in sorted(_OURS.rglob("*.py"))])


@cache
def _file(path: str) -> str:
    """Return the hash of a file at the first call in this process, soon after it was loaded."""
    try:
        return xxhash.xxh3_128(Path(path).read_bytes()).hexdigest()
    except OSError:
        return "unreadable"
