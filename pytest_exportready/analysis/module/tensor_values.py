"""Read the values and the memory of a tensor that may have none."""

from __future__ import annotations

import torch

from pytest_exportready.analysis.torch_internals.tensors import is_dtensor, is_fake


def readable(tensor: torch.Tensor) -> bool:
    """Return whether the tensor has values that can be read without a collective and without dequantizing."""
    return not (
        tensor.is_meta or tensor.is_quantized or is_fake(tensor) or is_dtensor(tensor) or is_uninitialized(tensor)
    )


def is_uninitialized(tensor: torch.Tensor) -> bool:
    """Return whether the tensor belongs to a lazy module that has not run yet."""
    return isinstance(tensor, (torch.nn.UninitializedParameter, torch.nn.UninitializedBuffer))


def all_finite(tensor: torch.Tensor) -> bool | None:
    """Return whether every value (of a sparse tensor, every stored value) is finite; None if they cannot be read."""
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
    """Return whether every value is ``value``; None if they cannot be read."""
    if not readable(tensor):
        return None
    try:
        return bool((tensor.detach() == value).all())
    except (NotImplementedError, RuntimeError):
        return None


def storage_address(tensor: torch.Tensor) -> int:
    """Return the address of the memory behind ``tensor``; 0 if it has none (meta, fake, sparse, some subclasses)."""
    if tensor.layout != torch.strided or tensor.is_meta or is_fake(tensor):
        return 0
    try:
        return tensor.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError, ValueError):
        return 0


def view_identity(tensor: torch.Tensor) -> tuple[object, ...] | None:
    """Return what is equal for two views of the same values only; None if ``tensor`` has no memory of its own."""
    if not storage_address(tensor):
        return None
    return tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype
