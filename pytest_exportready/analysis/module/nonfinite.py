"""Which of many tensors hold numbers that are not finite, read once and without copies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import torch

from pytest_exportready.analysis.module.tensor_values import all_finite, readable

_SMALL = 2**16  # elements: many such tensors are cheaper in one call, larger ones one by one
_BLOCK = 2**23  # elements of a tensor that is not contiguous, read (and so copied) at a time


def not_finite(tensors: Mapping[str, torch.Tensor]) -> list[str]:
    """Names of the floating-point and complex tensors with a NaN or an infinity, in the order given.

    Streams: no more than 32 Mi bytes besides the tensors. What cannot be read is left out.
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
    """One largest magnitude over all of them; a dtype that has none is read one by one."""
    try:
        largest = torch.nn.utils.get_total_norm(tensors, math.inf)
    except (NotImplementedError, RuntimeError):
        return False
    return bool(torch.isfinite(largest))


def _in_range(tensor: torch.Tensor) -> bool:
    """A smallest and a largest number need no memory, as a mask of the finite ones does; NaN is passed on."""
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
