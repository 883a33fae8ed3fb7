"""The machine as far as a compiled program depends on it: equal for equal nodes, other for a degraded link."""

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
    """memory: MiB. pcie_generation: what GPU and slot can do, which idling does not lower. pcie_width: lanes in use.
    links: NVLinks that are up. 0 where it is unknown."""

    name: str
    capability: str
    memory: int
    pcie_generation: int = 0
    pcie_width: int = 0
    links: int = 0


@dataclass(frozen=True)
class Topology:
    """cpu: its model. vectors: what torch uses of it, such as ``AVX512``. features: all that it can, which compilers
    use. torch: its git version. driver: of NVIDIA, empty without one. No host name, serial number or bus address is in
    it."""

    gpus: tuple[Gpu, ...]
    cpu: str
    vectors: str
    features: str
    torch: str
    cuda: str
    driver: str

    @property
    def key(self) -> str:
        """32 hex digits, the same on every node that is built alike and works as well."""
        return digest(astuple(self))


def topology(
    system: Path = Path("/"), devices: Callable[[], Iterator[Any]] | None = None, nvml: Any = None
) -> Topology:
    """This machine.

    system: the root that ``proc`` and ``sys`` are under. devices: gives torch's properties of each GPU. nvml: the
    module ``pynvml``, by default that of the package nvidia-ml-py if it is installed; without it links are unknown.
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
        return up  # there are no more links, or none at all
    return up


def _nvml() -> Any:
    try:
        return importlib.import_module("pynvml")
    except ImportError:
        return None


def _of_cpu(system: Path, *names: str) -> str:
    """What the kernel says of the first core under the first of ``names`` that it has; empty if under none."""
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
