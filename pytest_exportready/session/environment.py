"""The environment of a run, as properties of its JUnit file; the comparison of two runs reads them."""

from __future__ import annotations

import os
import platform
import subprocess
import warnings
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pytest_exportready.case.sanitize import exception_text, plain

LEG = "EXPORTREADY_LEG"
"""The environment variable that names a job of a matrix, the same in every run: ``h200``, ``cpu-py310``."""

DEPENDENCIES = (
    "pytest",
    "numpy",
    "sympy",
    "triton",
    "torchvision",
    "torchaudio",
    "torchao",
    "timm",
    "transformers",
    "safetensors",
    "executorch",
    "onnx",
    "onnxruntime",
    "onnxscript",
)
_TIMEOUT = 10  # seconds for a program that should end at once
_DRIVERS = ("/sys/module/nvidia/version", "/sys/module/amdgpu/version")


def properties(root: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return versions, machine and commit, as far as they are known.

    Args:
        root: A folder inside the repository of the user.
    """
    from pytest_exportready import __version__

    found = {
        "pytest-exportready": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": _cpu(),
        **_torch(),
        **dict(_dependencies()),
        "commit": environ.get("GITHUB_SHA", "") or _first_line("git", "-C", str(root), "rev-parse", "HEAD"),
        "exportready.leg": environ.get(LEG, ""),
    }
    return {key: value for key, value in found.items() if value}


def _torch() -> dict[str, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import torch
        except Exception as error:
            return {"torch": f"cannot be imported: {exception_text(error)}"}
        try:
            gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
        except Exception as error:
            gpus = [f"unknown: {exception_text(error)}"]
    return {
        "torch": torch.__version__,
        "torch.git_version": str(torch.version.git_version),
        "gpu": ", ".join(gpus) or "none (CPU only)",
        "driver": _driver() if gpus else "",
    }


def _dependencies() -> Iterator[tuple[str, str]]:
    for package in DEPENDENCIES:
        try:
            yield package, version(package) or ""
        except (PackageNotFoundError, OSError, ValueError):
            continue


def _driver() -> str:
    return next(filter(None, map(_read, _DRIVERS)), "") or _first_line(
        "nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"
    )


def _cpu() -> str:
    named = (line for line in _read("/proc/cpuinfo").splitlines() if line.startswith("model name"))
    return next(named, "").partition(":")[2].strip() or platform.processor()


def _read(path: str) -> str:
    try:
        return plain(Path(path).read_text(encoding="utf-8", errors="replace")).strip()
    except OSError:
        return ""


def _first_line(*command: str) -> str:
    """Return the first line that a program prints; empty if it is missing, fails or takes too long."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT, check=True, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return ""
    return plain(done.stdout.decode("utf-8", "replace")).strip().partition("\n")[0]
