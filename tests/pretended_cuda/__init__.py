"""A CUDA for tests on machines without a GPU: libraries that replace the runtime, the driver and the management library
of a CUDA build of torch, kernels that compute on the host, and a program ``nvidia-smi``.

Processes that run with its environment have CUDA devices with correct numbers. cuBLAS, cuDNN and NCCL do not start.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
_ENTRY_POINT = "[torch.backends]\npretended_cuda = pretended_cuda.host_kernels:register\n"  # torch loads it at import
_NVIDIA_SMI = """\
import os, sys
for index in range(int(os.environ.get("PRETENDED_GPUS", "1"))):
    uuid = f"GPU-00000000-0000-0000-0000-0000000000{index:02x}"
    if "-L" in sys.argv:
        print(f"GPU {index}: Pretended GPU (UUID: {uuid})")
    else:
        print(f"{index}, {uuid}, 8192, 7168, Pretended GPU, 580.00, Default")
"""


def needs() -> str | None:
    """Return what is missing here to build the libraries; None if nothing is."""
    if sys.platform != "linux":
        return "the pretended CUDA needs Linux"
    import torch

    if torch.version.cuda is None:
        return "the pretended CUDA needs a CUDA build of torch"
    if shutil.which("cc") is None:
        return "the pretended CUDA needs a C compiler"
    return None if _headers() else "the pretended CUDA needs the headers of the CUDA runtime, which triton contains"


class PretendedCuda:
    """The libraries, built into a folder."""

    def __init__(self, folder: Path) -> None:
        """Build the libraries into ``folder``."""
        self._folder = folder
        self._compile("runtime.c", "libruntime.so")
        self._compile("driver.c", "driver/libcuda.so.1")
        self._compile("nvml.c", "nvml/libnvidia-ml.so.1")
        program = folder / "bin" / "nvidia-smi"
        program.parent.mkdir()
        program.write_text(f"#!{sys.executable}\n{_NVIDIA_SMI}")
        program.chmod(0o755)
        package = folder / "python" / "pretended_cuda-1.0.dist-info"
        package.mkdir(parents=True)
        (package / "METADATA").write_text("Metadata-Version: 2.1\nName: pretended-cuda\nVersion: 1.0\n")
        (package / "entry_points.txt").write_text(_ENTRY_POINT)

    def environment(self, gpus: int = 1, *, nvml: bool = False) -> dict[str, str]:
        """Return the environment of a process that has ``gpus`` devices.

        Args:
            nvml: Whether the management library is installed, with which torch counts devices without starting CUDA.
        """
        libraries = [self._folder / "driver", *([self._folder / "nvml"] if nvml else [])]
        return {
            **os.environ,
            "PATH": _with([self._folder / "bin"], "PATH"),
            "LD_PRELOAD": str(self._folder / "libruntime.so"),
            "LD_LIBRARY_PATH": _with(libraries, "LD_LIBRARY_PATH"),
            "PYTHONPATH": _with([self._folder / "python", HERE.parent], "PYTHONPATH"),
            "PRETENDED_GPUS": str(gpus),
            "TORCH_DISABLE_NATIVE_JIT": "1",  # kernels that torch compiles with Triton
        }

    def _compile(self, source: str, name: str) -> None:
        library = self._folder / name
        library.parent.mkdir(parents=True, exist_ok=True)
        command = ["cc", "-w", "-shared", "-fPIC", "-O1", f"-I{_headers()}", str(HERE / source), "-o", str(library)]
        subprocess.run(command, check=True)


def _with(folders: list[Path], variable: str) -> str:
    return os.pathsep.join(filter(None, [*map(str, folders), os.environ.get(variable)]))


def _headers() -> Path | None:
    """Return the folder with the headers of the CUDA runtime."""
    triton = find_spec("triton")
    if triton is None or triton.origin is None:
        return None
    folder = Path(triton.origin).parent / "backends" / "nvidia" / "include"
    return folder if (folder / "driver_types.h").is_file() else None
