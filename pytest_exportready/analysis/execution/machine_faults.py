"""Distinguish faults of the machine from those of a model: no memory, a GPU that fails, a driver that is too old."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import torch

from pytest_exportready.analysis.source.user_frames import chain
from pytest_exportready.case.sanitize import exception_text


@dataclass(frozen=True)
class _Kind:
    signs: re.Pattern[str]
    problem: str
    fix: str
    memory: bool = False


MORE_GPU_MEMORY = "Use a GPU with more memory, fewer processes (`-n`), or smaller example inputs."
_KINDS = (
    _Kind(
        re.compile(
            r"CUDA out of memory|CUDA error: out of memory|hipErrorOutOfMemory|cudaErrorMemoryAllocation"
            r"|CU(?:BLAS|DNN|SOLVER|SPARSE)_STATUS_(?:ALLOC_FAILED|NOT_INITIALIZED)|^(?:torch\.)?OutOfMemoryError"
        ),
        "a GPU has too little free memory",
        MORE_GPU_MEMORY,
        memory=True,
    ),
    _Kind(
        re.compile(
            r"DefaultCPUAllocator: (?:can't allocate|not enough) memory|std::bad_alloc|^MemoryError"
            r"|Cannot allocate memory"
        ),
        "the machine has too little free memory",
        "Use a machine with more memory, fewer processes (`-n`), or smaller example inputs.",
        memory=True,
    ),
    _Kind(
        re.compile(r"no kernel image is available|CUDA error: (?:invalid device function|named symbol not found)"),
        "this build of torch has no kernels for the GPU",
        "Install a build of torch for this GPU; `exportready doctor --gpus 1` names both.",
    ),
    _Kind(
        re.compile(
            r"CUDA driver version is insufficient|NVIDIA driver on your system is too old|Found no NVIDIA driver"
            r"|no CUDA-capable device is detected|unsupported display driver|forward compatibility was attempted"
        ),
        "the NVIDIA driver does not work with this build of torch",
        "Update the driver, or install a build of torch for an older CUDA.",
    ),
    _Kind(
        re.compile(r"CUDA-capable device\(s\) is/are busy or unavailable|CUDA error: system not yet initialized"),
        "the GPU cannot be used",
        "Stop other processes that use it, or set its compute mode to DEFAULT; on HGX machines start fabricmanager.",
    ),
    _Kind(
        re.compile(
            r"uncorrectable ECC error|hardware stack error|GPU has fallen off the bus|CUDA error: unknown error"
            r"|uncorrectable NVLink error"
        ),
        "the hardware of the GPU failed",
        "Look for Xid in the output of `dmesg`, and reset or replace the GPU.",
    ),
    _Kind(
        re.compile(
            r"nccl(?:Unhandled)?(?:System|Internal|Remote)Error|NCCL error.*unhandled system error"
            r"|ncclUnhandledCudaError|Failed to initialize NCCL communicator|Duplicate GPU detected"
        ),
        "NCCL cannot connect the GPUs",
        "Run it with NCCL_DEBUG=WARN; in a container, give /dev/shm 1 GiB (`--shm-size=1g` or `--ipc=host`).",
    ),
    _Kind(
        re.compile(
            r"CUDA_HOME environment variable is not set|nv/target: No such file|cuda\.h: No such file"
            r"|cuda_runtime\w*\.h: No such file|libcuda\.so cannot found|Failed to find C compiler"
            r"|Cannot find a working triton installation|nvcc.*not found|ptxas.*not found"
        ),
        "the machine lacks a tool that compiles for GPUs",
        "Install the CUDA toolkit and a C compiler, and set CUDA_HOME; `exportready doctor --gpus 1` looks for both.",
    ),
    _Kind(
        re.compile(r"^ImportError: .*\.so\b|^OSError: .*cannot open shared object file|\.so: undefined symbol"),
        "a library cannot be loaded",
        "Install its package for this Python, this torch and this driver.",
    ),
    _Kind(
        re.compile(r"No space left on device|Disk quota exceeded"),
        "a disk is full",
        "Free space on the disk of the temporary folder, or set TMPDIR to another one.",
    ),
)


class MachineFault(BaseException):
    """The machine is at fault. No ``Exception``: nothing may take it for a module that refuses an input.

    Args:
        problem: What is wrong.
        fix: What to do about it.
        memory: Whether it may work once memory is freed.
    """

    def __init__(self, problem: str, fix: str, memory: bool = False) -> None:
        super().__init__(problem, fix)
        self.problem, self.fix, self.memory = problem, fix, memory


def machine_fault(error: BaseException) -> MachineFault | None:
    """Return the fault of the machine that raised ``error`` or a cause of it; None if the machine is not at fault."""
    for link in chain(error):
        if isinstance(link, MachineFault):
            return link
        if isinstance(link, (RuntimeError, OSError, MemoryError, ImportError)):
            found = fault_in(exception_text(link))
            if found is not None:
                return found
    return None


def fault_in(text: str) -> MachineFault | None:
    """Return the fault that is named in the text of an exception, or in the output of a compiler; None without one."""
    for kind in _KINDS:
        if kind.signs.search(text):
            return MachineFault(f"{kind.problem}: {text}", kind.fix, kind.memory)
    return None


@contextmanager
def machine_faults_raised() -> Iterator[None]:
    """Raise a MachineFault in place of an exception that the machine caused."""
    try:
        yield
    except Exception as error:
        fault = machine_fault(error)
        if fault is not None:
            raise fault from error
        raise


def out_of_memory_count() -> int:
    """Return how often GPUs ran out of memory in this process, also where the exception was caught."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return 0
    return sum(torch.cuda.memory_stats(index).get("num_ooms", 0) for index in range(torch.cuda.device_count()))


def free_memory() -> None:
    """Free what no object uses, on the host and on GPUs."""
    gc.collect()
    free_gpu_memory()


def free_gpu_memory() -> None:
    """Free what no object uses on GPUs, if this process has started CUDA."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        gc.collect()
        with suppress(RuntimeError):  # CUDA may have stopped
            torch.cuda.empty_cache()
