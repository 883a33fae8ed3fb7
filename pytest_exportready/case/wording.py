"""Words of messages that depend on how many things they name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def few(names: Iterable[str], limit: int = 3) -> str:
    """Return ``a, b, c and 4 more``; the root's empty name is written ``(root)``."""
    every = [name or "(root)" for name in names]
    return and_more(every[:limit], len(every))


def and_more(shown: Sequence[str], total: int, separator: str = ", ") -> str:
    """Return ``a, b and 4 more``, of ``total`` things of which some are shown."""
    rest = total - len(shown)
    return separator.join(shown) + (f" and {rest:,} more" if rest > 0 else "")


def counted(count: int, singular: str, plural: str = "") -> str:
    """Return ``1 parameter``, ``3,000 parameters``; ``plural`` if it is not the singular and an s."""
    return f"{count:,} {singular if count == 1 else plural or f'{singular}s'}"


def subject_of(count: int, singular: str) -> str:
    """Return the subject and verb of a sentence: ``1 parameter is``, ``3 parameters are``."""
    return f"{counted(count, singular)} {'is' if count == 1 else 'are'}"


def named_ranks(ranks: Iterable[int]) -> str:
    """Return ``rank 3``, ``ranks 0, 2 and 5 more``."""
    every = list(ranks)
    return f"rank{'' if len(every) == 1 else 's'} {few(map(str, every), 8)}"
