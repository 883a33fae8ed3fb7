"""The source of a user function as a syntax tree, with the values of its outer names."""

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
    """The source of one function."""

    file: str  # as in tracebacks
    tree: ast.FunctionDef  # line numbers are those of the file, columns (of bytes) those of lines without ``indent``
    function: FunctionType
    lines: tuple[str, ...]  # as in the file
    first: int  # line number of the first

    @property
    def indent(self) -> int:
        return len(self.lines[0]) - len(self.lines[0].lstrip())

    def outer(self, name: str) -> tuple[bool, Any]:
        """Return whether a name from outside the function is known, and its value."""
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
"""The kinds of the names in one call of one function."""


class CallFollower(Protocol):
    """Follow the calls of user functions, and collect what is found in them."""

    def call(
        self, function: FunctionType, arguments: Sequence[Kind], keywords: dict[str, Kind], owner: int = 0
    ) -> Kind:
        """Return the kind of the result of ``function``."""

    def found(self, source: Source, scope: Scope, line: int, what: str, words: str) -> None:
        """Report a line."""

    def may_go_on(self) -> bool:
        """Count one statement; return False once the limit is reached."""

    def doubting(self, doubt: bool) -> AbstractContextManager[None]:
        """Return a context in which lines may never be reached, if ``doubt``."""


@cache
def source_of(function: FunctionType) -> Source | None:
    """Return the source of a function without its decorators; None if it is a lambda, unreadable, or not user code."""
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
