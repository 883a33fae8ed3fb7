"""Words of messages that depend on how many things they name."""

from __future__ import annotations

from collections.abc import Iterable


def few(names: Iterable[str], limit: int = 3) -> str:
    """Return ``a, b, c and 4 more``; the root's empty name is written ``(root)``."""
    every = [name or "(root)" for name in names]
    rest = len(every) - limit
    return ", ".join(every[:limit]) + (f" and {rest} more" if rest > 0 else "")


def counted(count: int, singular: str, plural: str = "") -> str:
    """Return ``1 parameter``, ``3 parameters``."""
    return f"{count} {singular}" if count == 1 else f"{count} {plural or singular + 's'}"


def subject_of(count: int, singular: str) -> str:
    """Return the subject and verb of a sentence: ``1 parameter is``, ``3 parameters are``."""
    return f"{counted(count, singular)} {'is' if count == 1 else 'are'}"
