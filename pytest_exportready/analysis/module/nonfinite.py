"""Find tensors with numbers that are not finite, reading each once and without copies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import torch

from pytest_exportready.analysis.module.tensor_values import all_finite, readable

_SMALL = 2**16  # elements: many such tensors are cheaper in one call, larger ones one by one
_BLOCK = 2**23  # elements of a tensor that is not contiguous, read (and so copied) at a time


def not_finite(tensors: Mapping[str, torch.Tensor]) -> list[str]:
    """Return the names of the floating-point and complex tensors with NaN or infinity, in the order given.

    At most 32 MiB are used in addition to the tensors. Tensors that cannot be read are skipped.
    """
    real = {name: t.detach() for name, t in tensors.items() if _can_be_read(t)}
    small: dict[tuple[torch.device, torch.dtype], list[str]] = {}
    broken: set[str] = set()
    for name, tensor in real.items():
        if tensor.numel() <= _SMALL:
            small.setdefault((tensor.device, tensor.dtype), []).append(name)
        elif not _in_range(tensor):
            broken.add(name)
    for names in small.values():
        if not _together_finite([real[name] for name in names]):
            broken.update(name for name in names if all_finite(real[name]) is False)
    return [name for name in tensors if name in broken]


def _can_be_read(tensor: torch.Tensor) -> bool:
    numbers = tensor.is_floating_point() or tensor.is_complex()
    return numbers and readable(tensor) and tensor.layout is torch.strided and tensor.numel() > 0


def _together_finite(tensors: list[torch.Tensor]) -> bool:
    """Return whether the largest magnitude of all is finite; False if the dtype has no such operator."""
    try:
        largest = torch.nn.utils.get_total_norm(tensors, math.inf)
    except (NotImplementedError, RuntimeError):
        return False
    return bool(torch.isfinite(largest))


def _in_range(tensor: torch.Tensor) -> bool:
    """Return whether minimum and maximum are finite, which needs no memory for a mask; NaN propagates."""
    try:
        for block in _blocks(torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor):
            low, high = torch.aminmax(block)
            if not bool(torch.isfinite(low) & torch.isfinite(high)):
                return False
    except (NotImplementedError, RuntimeError):
        return all_finite(tensor) is not False
    return True


def _blocks(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    if tensor.is_contiguous() or tensor.dim() == 0 or tensor.numel() <= _BLOCK:
        yield tensor
    elif tensor.shape[0] == 1:
        yield from _blocks(tensor[0])
    else:
        half = tensor.shape[0] // 2
        yield from _blocks(tensor[:half])
        yield from _blocks(tensor[half:])
