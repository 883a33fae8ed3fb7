"""The source of a function of the user's as a syntax tree, with its parameters and what its names stand for."""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Any, Protocol

from pytest_exportready.analysis.source.abstract_values import Kind
from pytest_exportready.analysis.source.user_frames import is_users


@dataclass(frozen=True, eq=False)
class Source:
    """file: as the traceback names it. lines: as they are in the file, from line number ``first`` on. tree: its line
    numbers are those of the file, its columns (of bytes) those of the lines without ``indent``."""

    file: str
    tree: ast.FunctionDef
    function: FunctionType
    lines: tuple[str, ...]
    first: int

    @property
    def indent(self) -> int:
        return len(self.lines[0]) - len(self.lines[0].lstrip())

    def outer(self, name: str) -> tuple[bool, Any]:
        """Whether a name from outside the function is known, and what it stands for."""
        closed = dict(zip(self.function.__code__.co_freevars, self.function.__closure__ or (), strict=True))
        try:
            if name in closed:
                return True, closed[name].cell_contents
        except ValueError:  # an empty cell
            return False, None
        for table in (self.function.__globals__, vars(builtins)):
            if name in table:
                return True, table[name]
        return False, None


Scope = dict[str, Kind]
"""What is known of the names in one call of one function."""


class CallFollower(Protocol):
    """Follows the calls of user functions, and collects what is found on the way."""

    def call(
        self, function: FunctionType, arguments: Sequence[Kind], keywords: dict[str, Kind], owner: int = 0
    ) -> Kind:
        """Return the kind that calling ``function`` gives."""

    def found(self, source: Source, scope: Scope, line: int, what: str, words: str) -> None:
        """Report a line."""

    def may_go_on(self) -> bool:
        """Count one statement; return False once the limit is reached."""

    def doubting(self, doubt: bool) -> AbstractContextManager[None]:
        """Return a context in which lines may never be reached, if ``doubt``."""


@cache
def source_of(function: FunctionType) -> Source | None:
    """The source of a plain function, of what its decorators wrap; None for torch's, a lambda, or one whose file cannot
    be read."""
    function = inspect.unwrap(function)
    if not isinstance(function, FunctionType):
        return None
    code = function.__code__
    if not is_users(code.co_filename):
        return None
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, TypeError, IndentationError):
        return None
    found = tree.body[0]
    if not isinstance(found, ast.FunctionDef) or found.name != function.__name__:
        return None
    ast.increment_lineno(found, first - 1)
    return Source(code.co_filename, found, function, tuple(lines), first)
