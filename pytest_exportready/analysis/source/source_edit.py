"""Replace text of a user function: as a diff of its file, and as code to run."""

from __future__ import annotations

import ast
import difflib
import linecache
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

from pytest_exportready.analysis.source.function_source import Source

Position = tuple[int, int]  # line of the file and column of the tree


@dataclass(frozen=True)
class Edit:
    """Replace the text between two positions of a source's tree."""

    start: Position
    end: Position
    text: str

    @classmethod
    def of(cls, first: ast.expr | ast.stmt, last: ast.expr | ast.stmt, nodes: Sequence[ast.AST]) -> Edit:
        """Return the edit that replaces everything from ``first`` to ``last`` by ``nodes``."""
        end = last.end_lineno or last.lineno, last.end_col_offset or last.col_offset
        return cls((first.lineno, first.col_offset), end, "\n".join(ast.unparse(node) for node in nodes))


def edited(source: Source, edits: Sequence[Edit]) -> list[str]:
    """Return the lines of the function after edits that do not overlap."""
    lines = list(source.lines)
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        (top, left), (bottom, right) = edit.start, edit.end
        before = lines[top - source.first].encode()[: left + source.indent].decode()
        after = lines[bottom - source.first].encode()[right + source.indent :].decode()
        margin = before[: len(before) - len(before.lstrip())]
        new = before + edit.text.replace("\n", f"\n{margin}") + after
        lines[top - source.first : bottom - source.first + 1] = new.splitlines(keepends=True)
    return lines


def difference(source: Source, lines: Sequence[str], context: int) -> str:
    """Return a unified diff of the file, with the name relative to the working directory."""
    file = linecache.getlines(source.file)
    first = source.first - 1
    new = [*file[:first], *lines, *file[first + len(source.lines) :]]
    path = Path(source.file)
    name = path.relative_to(Path.cwd()).as_posix() if path.is_relative_to(Path.cwd()) else path.name
    return "".join(difflib.unified_diff(file, new, name, name, n=context)).rstrip("\n")


@contextmanager
def replaced(source: Source, lines: Sequence[str]) -> Iterator[None]:
    """Let the function run ``lines`` within the block.

    Raises:
        SyntaxError: The lines are not valid Python.
        ValueError: They close over other names than the function.
    """
    before = source.function.__code__
    source.function.__code__ = _compiled(source, lines)
    try:
        yield
    finally:
        source.function.__code__ = before


def _compiled(source: Source, lines: Sequence[str]) -> CodeType:
    """Compile the lines inside a class and a function that has the names they close over; nothing is run."""
    old = source.function.__code__
    owner = source.function.__qualname__.split(".")[-2:-1]
    closed = ", ".join(name for name in old.co_freevars if name != "__class__")
    header = [f"def _({closed}):\n"] if source.indent else []
    if header and owner not in ([], ["<locals>"]):
        header.append(f" class {owner[0]}:\n")
    tree = ast.parse("".join([*header, *lines]))
    ast.increment_lineno(tree, source.first - 1 - len(header))
    found = next(_codes(compile(tree, source.file, "exec", dont_inherit=True), old.co_name), None)
    if found is None or found.co_freevars != old.co_freevars:
        raise ValueError("the new text closes over other names")
    return found


def _codes(code: CodeType, name: str) -> Iterator[CodeType]:
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    yield from (one for one in inner if one.co_name == name)
    for one in inner:
        yield from _codes(one, name)
