"""Custom operators."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from pytest_exportready.analysis.torch_internals._loaded import loaded_class


def custom_operator(name: str) -> Any:
    """Return the CustomOpDef that ``torch.library.custom_op`` returned for ``namespace::name``; None for others.

    The registry of these objects is private.
    """
    known = getattr(sys.modules.get("torch._library.custom_ops"), "OPDEFS", {})
    return known.get(name)


def is_custom_operator(thing: object) -> bool:
    """Return whether ``thing`` was returned by ``torch.library.custom_op``. Its class is private."""
    kind = loaded_class("torch._library.custom_ops", "CustomOpDef")
    return kind is not None and isinstance(thing, kind)


def functions_of_operator(operator: Any) -> list[Callable[..., Any]]:
    """Return the Python functions of a CustomOpDef, its implementation first; empty if unknown."""
    found = (getattr(operator, name, None) for name in ("_init_fn", "_abstract_fn"))
    return [function for function in found if function is not None]
