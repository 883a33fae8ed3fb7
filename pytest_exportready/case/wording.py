"""Counts, and lists of names, in messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def few(names: Iterable[str], limit: int = 3) -> str:
    """``a, b, c and 4 more``; the root's empty name is written ``(root)``."""
    every = [name or "(root)" for name in names]
    return and_more(every[:limit], len(every))


def and_more(shown: Sequence[str], total: int, separator: str = ", ") -> str:
    """``a, b and 4 more``, of ``total`` things of which some are shown."""
    rest = total - len(shown)
    return separator.join(shown) + (f" and {rest:,} more" if rest > 0 else "")


def counted(count: int, singular: str, plural: str = "") -> str:
    """``1 parameter``, ``3,000 parameters``; ``plural`` where it is not the singular and an s."""
    return f"{count:,} {singular if count == 1 else plural or f'{singular}s'}"
