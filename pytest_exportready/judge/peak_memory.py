"""Measure the peak memory of a piece of work, in addition to what was in use before."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pytest_exportready.analysis.execution import gpu_peak

_PROCESS = Path("/proc/self")
MIB = 1 << 20


class PeakMemory:
    """Measures from its construction on: this process, and the GPUs that torch uses in it.

    Linux keeps the peak of the resident set and lets a process reset its own (proc(5), ``clear_refs`` and ``VmHWM``);
    on other systems there is no figure. Child processes are not counted.
    """

    def __init__(self) -> None:
        try:
            (_PROCESS / "clear_refs").write_text("5")
        except OSError:
            self._before = None
        else:
            self._before = _resident("VmRSS")
        cuda = _cuda()
        self._gpus: dict[int, int] = {}
        if cuda is not None:
            gpu_peak.begin()
            self._gpus = {index: cuda.memory_allocated(index) for index in range(cuda.device_count())}

    def mib(self) -> float:
        """Return the peak of main memory in MiB, in addition to what was in use before; 0.0 if unknown."""
        peak = None if self._before is None else _resident("VmHWM")
        return 0.0 if peak is None or self._before is None else round(max(peak - self._before, 0) / MIB, 1)

    def gpu_mib(self) -> float:
        """Return the same of the tensors on the GPU with the highest peak; 0.0 without one."""
        cuda = _cuda()
        if cuda is None:
            return 0.0
        devices = range(cuda.device_count())  # what CUDA holds is new if it has started since
        return _mib(max(gpu_peak.highest(index) - self._gpus.get(index, 0) for index in devices))

    def gpu_reserved_mib(self) -> float:
        """Return the highest peak of what torch took from one GPU, tensors and what it keeps for the next ones."""
        cuda = _cuda()
        return 0.0 if cuda is None else _mib(max(map(cuda.max_memory_reserved, range(cuda.device_count()))))


def _mib(size: int) -> float:
    return round(max(size, 0) / MIB, 1)


def _resident(key: str) -> int | None:
    """Return a figure of this process in bytes, from the kernel."""
    try:
        lines = (_PROCESS / "status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:")), None)


def _cuda() -> Any:
    """Return ``torch.cuda`` if this process has initialized it: measuring must not do so."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None
