"""Text of unknown origin in GitHub's Markdown: no markup of its own, no mention of anybody, no break of a table."""

from __future__ import annotations

import re

from pytest_exportready.report import truncate


def code(text: str, limit: int = 300) -> str:
    """``text`` in one line as a code span, in which GitHub reads neither markup nor mentions."""
    line = truncate.line(text, limit).replace("|", "\N{BROKEN BAR}")  # a bar ends a table's cell even in a span
    if not line.strip():
        return ""
    longest = max(map(len, re.findall("`+", line)), default=0)
    fence, space = "`" * (longest + 1), " " if "`" in line else ""
    return f"{fence}{space}{line}{space}{fence}"


def fitted(parts: list[str], limit: int, left_out: str) -> str:
    """The leading ``parts`` that fit in ``limit`` bytes, and ``left_out`` where some do not; the first always."""
    kept: list[str] = []
    room = limit - len(left_out.encode()) - 2
    for part in parts:
        room -= len(part.encode()) + 2
        if room < 0 and kept:
            return "\n\n".join([*kept, left_out]) + "\n"
        kept.append(part)
    return "\n\n".join(kept) + "\n"
