"""Show that a GPU computes, in a process that may not survive it."""

from __future__ import annotations

from typing import Any

SECONDS = 120.0  # for CUDA to start and a kernel to run on a busy machine


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Multiply two matrices on the first visible GPU; the loader process serves this request.

    Raises:
        RuntimeError: CUDA does not start, or the kernel fails.
    """
    import torch

    ones = torch.ones(16, 16, device="cuda")
    if float((ones @ ones).sum()) != 16.0**3:
        raise RuntimeError("the GPU computes a wrong product")
    return {}
