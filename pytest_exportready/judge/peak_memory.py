"""Measure the peak memory of a piece of work, in addition to what was in use before."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

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
        self._gpus = {} if cuda is None else {index: _reset(cuda, index) for index in range(cuda.device_count())}

    def mib(self) -> float:
        """Return the peak of main memory in MiB, in addition to what was in use before; 0.0 if unknown."""
        peak = None if self._before is None else _resident("VmHWM")
        return 0.0 if peak is None or self._before is None else round(max(peak - self._before, 0) / MIB, 1)

    def gpu_mib(self) -> float:
        """Return the same of the GPU with the highest peak; 0.0 without one."""
        cuda = _cuda()
        if cuda is None or not self._gpus:
            return 0.0
        most: int = max(cuda.max_memory_allocated(index) - before for index, before in self._gpus.items())
        return round(max(most, 0) / MIB, 1)


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


def _reset(cuda: Any, index: int) -> int:
    cuda.reset_peak_memory_stats(index)
    return int(cuda.memory_allocated(index))
