"""The rows of ``exportready doctor`` about GPUs.

The process of the command never asks CUDA: a driver may crash or hang. Only GPUs that are needed get a CUDA context.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_exportready.analysis.processes import nvidia_smi
from pytest_exportready.cli._doctor_nccl import nccl_row
from pytest_exportready.cli._doctor_row import GIB, Row

_SHARED = "/dev/shm"
_SHARED_GIB = 1.0
_STOP = "Stop the processes that use the GPU, or wait for them."
_RELOAD = "Reboot the machine, or install its driver again; cases lease no GPU until `nvidia-smi` works."


@dataclass(frozen=True)
class Needed:
    """The GPUs that a job needs, with this much free memory on each."""

    gpus: int
    gib: float


def gpu_rows(wanted: Needed) -> Iterator[Row]:
    """Yield what is known of the GPUs. Kernels run in other processes, and only on the GPUs that are needed."""
    yield from driver_rows(wanted.gpus)
    try:
        import torch
    except Exception:
        return  # reported in the row of torch
    if torch.backends.cuda.is_built():  # type: ignore[no-untyped-call]
        yield from _seen_rows(wanted)
    else:
        fix = "Install a CUDA build of torch."
        yield Row("GPU", False, f"this torch is for the CPU only; {_consequence(wanted)}", fix, wanted.gpus > 0)


def driver_rows(gpus: int) -> Iterator[Row]:
    """Yield what nvidia-smi lists, and the GPUs whose compute mode is not the default; ``gpus`` are needed."""
    needed = gpus > 0
    try:
        found = nvidia_smi.whole()
    except nvidia_smi.NotInstalled:
        if listed := nvidia_smi.of_kernel():
            text = f"not found; the kernel module lists {len(listed)} GPUs, without their free memory"
            yield Row("nvidia-smi", False, text, "In a container, add the capability `utility`.", needed=False)
        elif needed:
            fix = "Install the NVIDIA driver; in a container, use `--gpus all` with the capability `utility`."
            yield Row("nvidia-smi", False, "not found, and no kernel module lists GPUs", fix)
        return
    except nvidia_smi.NoListing as error:
        yield Row("nvidia-smi", False, str(error), _RELOAD, needed)
        return
    names = ", ".join(f"{one.name}: {one.model}" for one in found)
    yield Row("nvidia-smi", True, f"driver {found[0].driver}; GPU {names}")
    limited = [f"{one.mode} on GPU {one.name}" for one in found if re.match("Exclusive|Prohibited", one.mode)]
    if limited:
        fix = "Run `nvidia-smi -c DEFAULT`: programs are loaded in a second process."
        yield Row("compute mode", False, ", ".join(limited), fix, needed=False, otherwise="warning")


def _seen_rows(wanted: Needed) -> Iterator[Row]:
    from pytest_exportready.analysis.execution.machine_faults import fault_in
    from pytest_exportready.analysis.processes.gpu_trial import GpuFails, seen

    fix = "If the machine has one, install its driver; in a container, use `--gpus all`."
    needed = wanted.gpus > 0
    try:
        count, warned = seen()
    except (GpuFails, OSError) as error:  # OSError: the temporary folder cannot be used
        yield Row("GPU", False, f"counting GPUs with torch fails: {error}", fix, needed)
        return
    if not count:
        why = "".join(f"; torch: {one.partition(' (Triggered ')[0]}" for one in warned[:1])
        fault = fault_in(why)
        text = f"not available to this torch; {_consequence(wanted)}{why}"
        yield Row("GPU", False, text, fault.fix if fault else fix, needed)
    elif count < wanted.gpus:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        limit = "" if visible is None else f" (CUDA_VISIBLE_DEVICES={visible})"
        text = f"{count} of {wanted.gpus} needed{limit}"
        yield Row("GPUs", False, text, "Use another machine, or change CUDA_VISIBLE_DEVICES.")
    yield from _trials(wanted, count)
    if count or needed:
        yield from _environment(wanted)


def _consequence(wanted: Needed) -> str:
    return f"{wanted.gpus} needed" if wanted.gpus else "cases run on the CPU"


def _trials(wanted: Needed, count: int) -> Iterator[Row]:
    """Yield a row for each GPU, and one for NCCL if the job needs several and all of them work."""
    works = True
    for index in range(count):
        if index >= wanted.gpus:
            yield Row(f"GPU {index}", True, "not tried: it is not needed")
            continue
        row = _tried(index, wanted.gib)
        works &= row.ok
        yield row
    if 1 < wanted.gpus <= count and works:
        yield nccl_row(wanted.gpus)


def _tried(index: int, gib: float) -> Row:
    from pytest_exportready.analysis.execution.machine_faults import fault_in
    from pytest_exportready.analysis.processes.gpu_trial import GpuFails, tried

    try:
        gpu = tried(f"cuda:{index}")
    except (GpuFails, OSError) as error:  # OSError: the temporary folder cannot be used
        fault = fault_in(str(error))
        return Row(f"GPU {index}", False, f"a matrix product fails: {error}", fault.fix if fault else _STOP)
    memory = f"{gpu['name']}, {gpu['free'] / GIB:.1f} of {gpu['total'] / GIB:.1f} GiB free"
    enough = bool(gpu["free"] >= gib * GIB)
    return Row(f"GPU {index}", enough, memory if enough else f"{memory}, {gib:g} needed", _STOP)


def _environment(wanted: Needed) -> Iterator[Row]:
    toolkit = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or _folder_above(shutil.which("nvcc"))
    found = toolkit or "not found; only AOTInductor on a GPU needs it"
    yield Row("CUDA toolkit", bool(toolkit), found, "Install it, and set CUDA_HOME.", needed=False)
    compiler = shutil.which("cc") or ""
    yield Row("C compiler", bool(compiler), compiler or "not found; only Triton needs it", "Install gcc.", needed=False)
    if os.path.isdir(_SHARED):
        size = shutil.disk_usage(_SHARED).total / GIB
        fix = "Start the container with `--shm-size=1g` or `--ipc=host`."
        several = wanted.gpus > 1
        yield Row(_SHARED, size >= _SHARED_GIB, f"{size:.1f} GiB", fix, needed=several, otherwise="warning")


def _folder_above(program: str | None) -> str:
    return os.path.dirname(os.path.dirname(program)) if program else ""
