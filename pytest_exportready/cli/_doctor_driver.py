"""The rows of ``exportready doctor`` about the NVIDIA driver, without CUDA.

The package that leases GPUs also runs nvidia-smi, but it is reached through hooks of pytest, never by import, and this
command runs without pytest. A lease also does not need the compute mode.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pytest_exportready.cli._doctor_processes import ProgramFailed, first_line, output_of
from pytest_exportready.cli._doctor_row import Row

_COMMAND = ("nvidia-smi", "--query-gpu=index,name,driver_version,compute_mode", "--format=csv,noheader")
_SECONDS = 30.0  # for a program that ends in one
_ROW = re.compile(r"(\d+), *([^,]+), *([^,]+), *([^,]+)")
_OF_KERNEL = Path("/proc/driver/nvidia/gpus")
_RELOAD = "Reboot the machine, or install its driver again; cases lease no GPU until `nvidia-smi` works."


def driver_rows(gpus: int, kernel: Path = _OF_KERNEL, seconds: float = _SECONDS) -> Iterator[Row]:
    """Yield what nvidia-smi lists, and the GPUs whose compute mode is not the default.

    Args:
        gpus: The number of GPUs that the job needs.
        kernel: The folder in which the kernel module lists GPUs.
        seconds: The time limit of nvidia-smi.
    """
    needed = gpus > 0
    try:
        listing = output_of(_COMMAND, seconds)
    except FileNotFoundError:
        yield from _without_program(needed, len(list(kernel.glob("*/information"))))
        return
    except ProgramFailed as error:
        yield Row("nvidia-smi", False, str(error), _RELOAD, needed)
        return
    found = [row for line in listing.splitlines() if (row := _ROW.fullmatch(line.strip()))]
    if not found:  # other lines are warnings, and GPUs that do not work
        yield Row("nvidia-smi", False, f"lists no GPU: {first_line(listing)}", _RELOAD, needed)
        return
    names = ", ".join(f"{row[1]}: {row[2]}" for row in found)
    yield Row("nvidia-smi", True, f"driver {found[0][3]}; GPU {names}")
    limited = [f"{row[4]} on GPU {row[1]}" for row in found if re.match("Exclusive|Prohibited", row[4])]
    if limited:
        fix = "Run `nvidia-smi -c DEFAULT`: programs are loaded in a second process."
        yield Row("compute mode", False, ", ".join(limited), fix, needed=False, otherwise="warning")


def _without_program(needed: bool, listed: int) -> Iterator[Row]:
    if listed:
        found = f"not found; the kernel module lists {listed} GPUs, without their free memory"
        yield Row("nvidia-smi", False, found, "In a container, add the capability `utility`.", needed=False)
    elif needed:
        fix = "Install the NVIDIA driver; in a container, use `--gpus all` with the capability `utility`."
        yield Row("nvidia-smi", False, "not found, and no kernel module lists GPUs", fix)
