"""Write the arguments of a torch.export.export call as source, with zeros for tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch


def call_text(args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic_shapes: Any, *, strict: bool) -> str:
    """Return source such as ``(torch.zeros(2, 3),), {}, strict=True``, without values of tensors."""
    dynamic = "" if dynamic_shapes is None else f", dynamic_shapes={dynamic_shapes}"
    return f"{_written(args)}, {_written(dict(kwargs))}{dynamic}, strict={strict}"


def _written(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        dtype = "" if value.dtype == torch.float32 else f", dtype={value.dtype}"
        return f"torch.zeros({', '.join(map(str, value.shape)) or '()'}{dtype})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_written(item)}" for key, item in value.items()) + "}"
    if type(value) in (list, tuple):
        inner = ", ".join(map(_written, value)) + "," * (isinstance(value, tuple) and len(value) == 1)
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    return repr(value) if value is None or isinstance(value, (bool, int, str)) else f"<{type(value).__name__}>"
