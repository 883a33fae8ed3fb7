"""Lists of names in messages: a few, and how many more."""

from __future__ import annotations

from collections.abc import Iterable


def few(names: Iterable[str], limit: int = 3) -> str:
    """``a, b, c and 4 more``; the root's empty name is written ``(root)``."""
    every = [name or "(root)" for name in names]
    rest = len(every) - limit
    return ", ".join(every[:limit]) + (f" and {rest} more" if rest > 0 else "")


def counted(count: int, singular: str) -> str:
    """``1 parameter``, ``3 parameters``."""
    return f"{count} {singular}" if count == 1 else f"{count} {singular}s"
