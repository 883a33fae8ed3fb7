"""Limits on the texts of a report, and the cleaning that makes text of unknown origin safe to write.

CI services drop files with longer names, messages or logs, or cut them. Cutting here keeps head and tail.
"""

from __future__ import annotations

from hashlib import sha256

from pytest_exportready.case.sanitize import plain

NAME_LIMIT = 1_000
MESSAGE_LIMIT = 500
TEXT_LIMIT = 64 * 1024
OUTPUT_LIMIT = 8 * 1024
LOG_LIMIT = 1024 * 1024

_ONE_LINE = str.maketrans("\r\n\t", "   ")


def line(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Return ``text`` in one clean line of at most ``limit`` characters."""
    if len(text) <= limit and text.isprintable() and "  " not in text and text == text.strip():
        return text
    clean = " ".join(plain(text[: 10 * limit]).split())
    if len(clean) <= limit:
        return clean
    tail = limit // 4
    return f"{clean[: limit - tail - 5].rstrip()} ... {clean[-tail:].lstrip()}"


def block(text: str, limit: int = TEXT_LIMIT) -> str:
    """Return clean text of several lines; a longer one keeps head and tail, and a line says how much is left out."""
    if len(text) > 4 * limit:
        text, gone = text[: 2 * limit] + text[-2 * limit :], len(text) - 4 * limit
    else:
        gone = 0
    clean = plain(text.replace("\r\n", "\n").replace("\r", "\n"))
    if not gone and len(clean) <= limit:
        return clean
    tail = limit // 4
    head = limit - tail - 60
    note = f"\n... {gone + len(clean) - head - tail} characters left out ...\n"
    return clean[:head] + note + clean[-tail:]


def name(text: str, limit: int = NAME_LIMIT) -> str:
    """Return a clean name in one line; a changed one ends in a digest of the original, to stay unique."""
    if len(text) <= limit and text.isprintable():
        return text
    clean = plain(text.translate(_ONE_LINE))
    if clean == text and len(text) <= limit:
        return text
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"{plain(clean, limit - 11)}~{digest}"


def seconds(value: float) -> float:
    """Return ``value`` with three decimals, from 0 to 1e9, as XML schemas accept it."""
    return round(float(value), 3) if 0.0 <= value <= 1e9 else 1e9 if value > 1e9 else 0.0
