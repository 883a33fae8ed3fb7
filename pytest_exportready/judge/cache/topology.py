"""Describe the machine as far as a compiled program depends on it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import torch

from pytest_exportready.analysis.program.canonical_form import digest

_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}  # GT/s of a PCIe lane


@dataclass(frozen=True)
class Gpu:
    """One GPU; numbers are 0 if unknown."""

    name: str
    capability: str
    memory: int  # MiB
    pcie_generation: int = 0  # that GPU and slot support, which does not depend on the load
    pcie_width: int = 0  # lanes in use
    links: int = 0  # active NVLinks


@dataclass(frozen=True)
class Topology:
    """The machine and torch, without host names, serial numbers and bus addresses."""

    gpus: tuple[Gpu, ...]
    cpu: str  # model name
    vectors: str  # instruction set that torch uses, such as ``AVX512``
    features: str  # all instruction sets, which compilers use
    torch: str  # git version
    cuda: str
    driver: str  # of NVIDIA; empty without one

    @property
    def key(self) -> str:
        """32 hex digits, the same on equal machines, and different for a degraded link."""
        return digest(astuple(self))


def topology(
    system: Path = Path("/"), devices: Callable[[], Iterator[Any]] | None = None, nvml: Any = None
) -> Topology:
    """Return the topology of this machine.

    Args:
        system: The root of ``proc`` and ``sys``.
        devices: Yields torch's properties of each GPU.
        nvml: The module ``pynvml``; by default that of the package nvidia-ml-py, without which links are unknown.
    """
    nvml = nvml or _nvml()
    seen = list((devices or _devices)())
    return Topology(
        tuple(_gpu(properties, system, nvml) for properties in seen),
        _of_cpu(system, "model name"),
        torch.backends.cpu.get_cpu_capability(),
        " ".join(sorted(_of_cpu(system, "flags", "Features").split())),
        str(torch.version.git_version),
        str(torch.version.cuda or ""),
        _first_line(system / "sys/module/nvidia/version") if seen else "",
    )


def _devices() -> Iterator[Any]:
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        yield torch.cuda.get_device_properties(index)


def _gpu(properties: Any, system: Path, nvml: Any) -> Gpu:
    numbers = [getattr(properties, f"pci_{part}_id", -1) for part in ("domain", "bus", "device")]
    address = "{:04x}:{:02x}:{:02x}.0".format(*numbers) if min(numbers) >= 0 else ""
    slot = system / "sys/bus/pci/devices" / (address or "unknown")
    speed = _first_line(slot / "max_link_speed").partition(" ")[0]
    width = _first_line(slot / "current_link_width")
    return Gpu(
        properties.name,
        f"{properties.major}.{properties.minor}",
        properties.total_memory >> 20,
        _GENERATIONS.get(float(speed), 0) if speed.replace(".", "", 1).isdigit() else 0,
        int(width) if width.isdigit() else 0,
        _links(nvml, address) if nvml is not None and address else 0,
    )


def _links(nvml: Any, address: str) -> int:
    up = 0
    try:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByPciBusId(address.encode())
        for link in range(nvml.NVML_NVLINK_MAX_LINKS):
            up += nvml.nvmlDeviceGetNvLinkState(handle, link) == nvml.NVML_FEATURE_ENABLED
    except nvml.NVMLError:
        return up  # no more links
    return up


def _nvml() -> Any:
    try:
        return importlib.import_module("pynvml")
    except ImportError:
        return None


def _of_cpu(system: Path, *names: str) -> str:
    """Return the kernel's text about the first core under one of ``names``; empty if there is none."""
    try:
        lines = (system / "proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(names)), "")


def _first_line(path: Path) -> str:
    try:
        return path.read_text().splitlines()[0].strip()
    except (OSError, IndexError):
        return ""
