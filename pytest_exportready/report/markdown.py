"""Text of unknown origin in Markdown: without markup, mentions, or breaks of a table or block."""

from __future__ import annotations

import re

from pytest_exportready.report import truncate


def code(text: str, limit: int = 300) -> str:
    """Return ``text`` in one line as a code span, in which GitHub reads neither markup nor mentions."""
    line = truncate.line(text, limit).replace("|", "\N{BROKEN BAR}")  # a bar ends a table's cell even in a span
    if not line.strip():
        return ""
    fence, space = "`" * (_longest_run(line) + 1), " " if "`" in line else ""
    return f"{fence}{space}{line}{space}{fence}"


def fenced(text: str, language: str = "") -> str:
    """Return ``text`` between fences that are longer than any run of backticks in it."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def fitted(parts: list[str], limit: int, left_out: str) -> str:
    """Return the leading ``parts`` that fit in ``limit`` bytes, at least one, and ``left_out`` if some do not fit."""
    kept: list[str] = []
    room = limit - len(left_out.encode()) - 2
    for part in parts:
        room -= len(part.encode()) + 2
        if room < 0 and kept:
            return "\n\n".join([*kept, left_out]) + "\n"
        kept.append(part)
    return "\n\n".join(kept) + "\n"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
