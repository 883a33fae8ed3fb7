"""Show that GPUs compute and reach each other, in processes that may not survive it."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_exportready.analysis.processes.child import ProcessDied
from pytest_exportready.analysis.processes.loader_client import LOADER, LoaderGone
from pytest_exportready.analysis.processes.saved_program import name_of

SECONDS = 120.0  # for CUDA to start and a kernel to run on a busy machine


class GpuFails(Exception):
    """A GPU cannot be used; the message is the error."""


def seen() -> tuple[int, list[str]]:
    """Return how many GPUs torch counts in another process, and its warnings, which say why there is none.

    Raises:
        GpuFails: Counting crashes or hangs.
    """
    reply = _asked(count, "")
    return reply["count"], reply["warned"]


def tried(device: str = "cuda") -> dict[str, Any]:
    """Multiply two matrices on ``device`` in another process; return its name, and free and total memory in bytes.

    Raises:
        GpuFails: CUDA does not start, or the kernel fails, crashes or hangs.
    """
    return _asked(run, device)


def _asked(function: Callable[..., object], device: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="exportready-") as folder:
        request = {"function": name_of(function), "device": device, "hide_cuda": False}
        try:
            reply = LOADER.ask({**request, "reply": str(Path(folder) / "reply.json")}, SECONDS)
        except (ProcessDied, LoaderGone) as error:
            raise GpuFails(str(error)) from None
    if "error" in reply:
        raise GpuFails(reply["error"].partition("\n")[0])
    return reply


def count(request: dict[str, Any]) -> dict[str, Any]:
    """Count the GPUs that torch can use; the loader process serves this request."""
    import torch

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return {"count": found, "warned": [str(one.message) for one in warned]}


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Multiply two matrices; the loader process serves this request.

    Raises:
        RuntimeError: CUDA does not start, or the kernel fails.
    """
    import torch

    device = request["device"]
    free, total = torch.cuda.mem_get_info(device)
    ones = torch.ones(16, 16, device=device)
    if float((ones @ ones).sum()) != 16.0**3:
        raise RuntimeError("the GPU computes a wrong product")
    return {"name": torch.cuda.get_device_name(device), "free": free, "total": total}


def add() -> None:
    """Add the ranks of a launcher over their GPUs. Raises RuntimeError if the sum is wrong."""
    import torch
    import torch.distributed as dist

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    total = torch.full((1,), float(rank), device=f"cuda:{rank}")
    dist.all_reduce(total)
    if float(total) != size * (size - 1) / 2:
        raise RuntimeError(f"all_reduce gives {float(total)}")
    dist.destroy_process_group()
