"""Text of unknown origin as a block of Markdown that nothing inside it can end."""

from __future__ import annotations

import re


def fenced(text: str, language: str = "") -> str:
    """``text`` between fences longer than any run of backticks in it. ``language`` colours it, as ``sh`` does."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
