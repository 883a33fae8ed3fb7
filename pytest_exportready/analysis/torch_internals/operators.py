"""Operators that users registered."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from pytest_exportready.analysis.torch_internals._loaded import loaded_class


def custom_operator(name: str) -> Any:
    """The CustomOpDef that ``torch.library.custom_op`` made for ``namespace::name``; None for any other operator.

    What the decorator returns is kept nowhere in public.
    """
    known = getattr(sys.modules.get("torch._library.custom_ops"), "OPDEFS", {})
    return known.get(name)


def is_custom_operator(thing: object) -> bool:
    """Whether ``thing`` is what ``torch.library.custom_op`` returns, a class that torch does not export to type
    checkers."""
    kind = loaded_class("torch._library.custom_ops", "CustomOpDef")
    return kind is not None and isinstance(thing, kind)


def functions_of_operator(operator: Any) -> list[Callable[..., Any]]:
    """The Python functions behind a CustomOpDef, its own first; empty if unknown. They have no public name."""
    found = (getattr(operator, name, None) for name in ("_init_fn", "_abstract_fn"))
    return [function for function in found if function is not None]
