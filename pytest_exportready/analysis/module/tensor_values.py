"""Questions to the values of a tensor that may have none, or that cannot answer."""

from __future__ import annotations

import torch

from pytest_exportready.analysis.torch_internals.tensors import is_dtensor, is_fake


def readable(tensor: torch.Tensor) -> bool:
    """True when reading values needs neither a collective nor a dequantisation, and there are values to
    read.
    """
    return not (
        tensor.is_meta or tensor.is_quantized or is_fake(tensor) or is_dtensor(tensor) or _uninitialised(tensor)
    )


def all_finite(tensor: torch.Tensor) -> bool | None:
    """Whether every value is finite; None when that cannot be read. Of a sparse tensor, the values it
    stores.
    """
    if not readable(tensor):
        return None
    try:
        values = tensor.detach()
        if values.layout is torch.sparse_coo:
            values = values.coalesce().values()
        elif values.layout is not torch.strided:
            values = values.values()
        return bool(torch.isfinite(values).all())
    except (NotImplementedError, RuntimeError):
        return None


def all_equal_to(tensor: torch.Tensor, value: float) -> bool | None:
    """Whether every value is ``value``; None when that cannot be read."""
    if not readable(tensor):
        return None
    try:
        return bool((tensor.detach() == value).all())
    except (NotImplementedError, RuntimeError):
        return None


def _uninitialised(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, (torch.nn.UninitializedParameter, torch.nn.UninitializedBuffer))
