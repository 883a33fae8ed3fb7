"""The most memory that a stretch of work held beyond what was there before it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

_PROCESS = Path("/proc/self")
MIB = 1 << 20


class PeakMemory:
    """Begins to watch when it is made: this process, and the GPUs that its torch has in use.

    Linux keeps the peak of the resident set and lets a process reset its own (proc(5), ``clear_refs`` and ``VmHWM``);
    elsewhere there is no figure. Children are not counted.
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
        """MiB of main memory at the most since, beyond what was held then; 0.0 where it cannot be told."""
        peak = None if self._before is None else _resident("VmHWM")
        return 0.0 if peak is None or self._before is None else round(max(peak - self._before, 0) / MIB, 1)

    def gpu_mib(self) -> float:
        """The same of the GPU that needed most; 0.0 without one."""
        cuda = _cuda()
        if cuda is None or not self._gpus:
            return 0.0
        most: int = max(cuda.max_memory_allocated(index) - before for index, before in self._gpus.items())
        return round(max(most, 0) / MIB, 1)


def _resident(key: str) -> int | None:
    """Bytes, as the kernel tells of this process."""
    try:
        lines = (_PROCESS / "status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:")), None)


def _cuda() -> Any:
    """torch.cuda, where this process has begun to use it: asking must not be what begins it."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None


def _reset(cuda: Any, index: int) -> int:
    cuda.reset_peak_memory_stats(index)
    return int(cuda.memory_allocated(index))
