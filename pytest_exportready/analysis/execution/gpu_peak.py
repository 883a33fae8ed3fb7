"""The peak of GPU memory of a whole case, and of a part of it: torch keeps only one peak for each GPU."""

from __future__ import annotations

import torch

_before: dict[int, int] = {}  # the highest peak before the last reset, by device


def begin() -> None:
    """Forget all peaks."""
    _before.clear()
    for index in range(torch.cuda.device_count()):
        torch.cuda.reset_peak_memory_stats(index)


def highest(index: int) -> int:
    """Return the peak in bytes on one device since ``begin``."""
    return max(_before.get(index, 0), torch.cuda.max_memory_allocated(index))


def begin_part() -> None:
    """Let torch's own peak be that of what follows; ``highest`` still counts what came before."""
    for index in range(torch.cuda.device_count()):
        _before[index] = highest(index)
        torch.cuda.reset_peak_memory_stats(index)
