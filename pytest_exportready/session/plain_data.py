"""Convert the data of a test report to types that xdist can send; any plugin may have added to it."""

from __future__ import annotations

from typing import Any


def plain_data(value: Any) -> Any:
    """Return ``value`` in exact built-in types, text without lone surrogates: anything else ends an xdist session.

    Tuples stay tuples. An object of another type becomes its ``str``.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, dict):
        return {plain_data(key): plain_data(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(map(plain_data, value))
    if isinstance(value, (list, set, frozenset)):
        return list(map(plain_data, value))
    return plain_data(_text(value))


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:
        return f"(a {type(value).__name__} that cannot be printed)"
