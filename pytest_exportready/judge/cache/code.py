"""The code that a case runs, as one hash: the user's files that it can reach, this project, what is installed."""

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
    """Hash of the files of ``modules`` and of all that they import, anywhere in them, and that are loaded; of every
    file of this package; of every installed distribution with its version. The standard library and what is installed
    count by version.
    """
    files = [(name, _file(path)) for name, path in sorted(_reached(modules))]
    return digest(installed_fingerprint(), _ours(), files)


@cache
def installed_fingerprint() -> str:
    """Hash of Python's version and of every installed distribution's."""
    return digest(sys.version, sorted((str(each.metadata["Name"]), each.version) for each in distributions()))


def _reached(modules: Iterable[str]) -> set[tuple[str, str]]:
    found: dict[str, str] = {}
    pending = list(modules)
    while pending:
        name = pending.pop()
        path = getattr(sys.modules.get(name), "__file__", None) or ""
        if name not in found and path and not path.startswith(_apart()):
            found[name] = path
            pending += _named_in(sys.modules[name], path)
    return set(found.items())


def _named_in(module: ModuleType, path: str) -> Iterator[str]:
    """Modules that ``module`` imports, those in functions too, and those that its names come from."""
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
def _apart() -> tuple[str, ...]:
    """Folders whose files count by version, or as a whole."""
    installed = [sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib")]
    return (*installed, str(_OURS))


@cache
def _ours() -> str:
    return digest([(path.name, _file(str(path))) for path in sorted(_OURS.rglob("*.py"))])


@cache
def _file(path: str) -> str:
    """Hash of a file as it was when this process first asked, soon after it was loaded."""
    try:
        return xxhash.xxh3_128(Path(path).read_bytes()).hexdigest()
    except OSError:
        return "unreadable"
