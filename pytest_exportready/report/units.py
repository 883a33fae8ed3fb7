"""Numbers with units for people."""

from __future__ import annotations

from typing import Literal

Unit = Literal["seconds", "bytes", "count", "error"]


def figure(value: float, unit: Unit) -> str:
    """Return ``value`` with its unit, in about three digits."""
    return {"seconds": duration, "bytes": _size, "count": _count, "error": _error}[unit](value)


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60:,} h {minutes % 60} min"


def _size(value: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} B" if unit == "B" else f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:,.1f} GiB"


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _error(value: float) -> str:
    return f"{value:.3g}"
