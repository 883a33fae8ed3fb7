"""The rows of ``exportready doctor`` about GPUs."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

GIB = 2**30
_SHARED = "/dev/shm"
_SHARED_GIB = 1.0
_STOP = "Stop the processes that use the GPU, or wait for them."


@dataclass(frozen=True)
class Row:
    """The state of one requirement."""

    name: str
    ok: bool
    found: str
    fix: str = ""
    needed: bool = True  # otherwise its absence is only printed


@dataclass(frozen=True)
class Needed:
    """The GPUs that a job needs, with this much free memory on each."""

    gpus: int
    gib: float


def gpu_rows(wanted: Needed) -> Iterator[Row]:
    """Yield what is known of the GPUs. Kernels run in other processes, and only on the GPUs that are needed."""
    try:
        import torch
    except Exception:
        return  # reported in the row of torch
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        available = torch.cuda.is_available()
    if not available:
        consequence = f"{wanted.gpus} needed" if wanted.gpus else "cases run on the CPU"
        why = "".join(f"; torch: {str(one.message).partition(' (')[0]}" for one in said[:1])
        fix = "If the machine has one, install its driver and a CUDA build of torch."
        yield Row("GPU", False, f"not available to this torch; {consequence}{why}", fix, needed=wanted.gpus > 0)
        return
    count = torch.cuda.device_count()
    if count < wanted.gpus:
        found = f"{count} of {wanted.gpus} needed"
        yield Row("GPUs", False, found, "Use another machine, or change CUDA_VISIBLE_DEVICES.")
    works = True
    for index in range(count):
        if index < wanted.gpus:
            row = _tried(index, wanted.gib)
            works &= row.ok
            yield row
        else:
            yield Row(f"GPU {index}", True, f"{torch.cuda.get_device_name(index)}, not tried: it is not needed")
    if 1 < wanted.gpus <= count and works:
        yield _met(wanted.gpus)
    yield from _environment(wanted)


def _tried(index: int, gib: float) -> Row:
    from pytest_exportready.analysis.execution.machine_faults import fault_in
    from pytest_exportready.analysis.processes.gpu_trial import GpuFails, tried

    try:
        gpu = tried(f"cuda:{index}")
    except GpuFails as error:
        fault = fault_in(str(error))
        return Row(f"GPU {index}", False, f"a matrix product fails: {error}", fault.fix if fault else _STOP)
    memory = f"{gpu['name']}, {gpu['free'] / GIB:.1f} of {gpu['total'] / GIB:.1f} GiB free"
    enough = bool(gpu["free"] >= gib * GIB)
    return Row(f"GPU {index}", enough, memory if enough else f"{memory}, {gib:g} needed", _STOP)


def _met(gpus: int) -> Row:
    from pytest_exportready.analysis.processes.gpu_trial import GpuFails, meet

    fix = "Run it with NCCL_DEBUG=WARN to see the cause; in a container, use `--shm-size=1g` or `--ipc=host`."
    try:
        meet(gpus)
    except GpuFails as error:
        return Row("NCCL", False, str(error), fix)
    return Row("NCCL", True, f"all_reduce over {gpus} GPUs")


def _environment(wanted: Needed) -> Iterator[Row]:
    toolkit = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or _folder_above(shutil.which("nvcc"))
    found = toolkit or "not found; only AOTInductor on a GPU needs it"
    yield Row("CUDA toolkit", bool(toolkit), found, "Install it, and set CUDA_HOME.", needed=False)
    compiler = shutil.which("cc") or ""
    yield Row("C compiler", bool(compiler), compiler or "not found; only Triton needs it", "Install gcc.", needed=False)
    if os.path.isdir(_SHARED):
        size = shutil.disk_usage(_SHARED).total / GIB
        fix = "Start the container with `--shm-size=1g` or `--ipc=host`."
        yield Row(_SHARED, size >= _SHARED_GIB, f"{size:.1f} GiB", fix, needed=wanted.gpus > 1)


def _folder_above(program: str | None) -> str:
    return os.path.dirname(os.path.dirname(program)) if program else ""
