"""Equal machines have one key, and one with a degraded link another; a machine without information has a key, too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_exportready.judge.cache.topology import Topology, topology

CORE = "model name\t: Some CPU @ 2.00GHz\nflags\t\t: sse avx2\n"
CPUINFO = f"processor\t: 0\n{CORE}\nprocessor\t: 1\n{CORE}"


class NvmlError(Exception):
    pass


def nvml(up: int) -> Any:
    """A made-up pynvml of a GPU with four links, ``up`` of them in use."""

    def state(handle: object, link: int) -> int:
        if link >= 4:
            raise NvmlError
        return int(link < up)

    return SimpleNamespace(
        NVMLError=NvmlError, NVML_NVLINK_MAX_LINKS=18, NVML_FEATURE_ENABLED=1, nvmlInit=lambda: None,
        nvmlDeviceGetHandleByPciBusId=lambda address: address, nvmlDeviceGetNvLinkState=state,
    )  # fmt: skip


def node(
    root: Path, bus: int = 0x3B, speed: str = "32.0 GT/s PCIe", width: str = "16", links: int = 4, more: str = ""
) -> Topology:
    """The topology of a made-up machine with two GPUs, the second one as asked for."""
    (root / "proc").mkdir(parents=True)
    (root / "proc/cpuinfo").write_text(CPUINFO.replace("sse", f"sse {more}"))
    (root / "sys/module/nvidia").mkdir(parents=True)
    (root / "sys/module/nvidia/version").write_text("580.65.06\n")
    gpus = []
    for number, (rate, lanes) in {bus: ("32.0 GT/s PCIe", "16"), bus + 1: (speed, width)}.items():
        slot = root / f"sys/bus/pci/devices/0000:{number:02x}:00.0"
        slot.mkdir(parents=True)
        (slot / "max_link_speed").write_text(rate)
        (slot / "current_link_width").write_text(lanes)
        gpus.append(
            SimpleNamespace(
                name="H200", major=9, minor=0, total_memory=139 << 30,
                pci_domain_id=0, pci_bus_id=number, pci_device_id=0,
            )
        )  # fmt: skip
    return topology(root, lambda: iter(gpus), nvml(links))


def test_ten_identical_nodes_have_one_key(tmp_path: Path) -> None:
    assert len({node(tmp_path / str(i), bus=0x10 + 16 * i).key for i in range(10)}) == 1


@pytest.mark.parametrize("worse", [{"speed": "16.0 GT/s PCIe"}, {"width": "8"}, {"links": 3}], ids=str)
def test_a_degraded_link_has_another_key(worse: dict[str, Any], tmp_path: Path) -> None:
    assert node(tmp_path / "good").key != node(tmp_path / "bad", **worse).key


def test_another_instruction_set_has_another_key(tmp_path: Path) -> None:
    """Under one model name, as of a virtual machine that hides some; their order does not count."""
    assert node(tmp_path / "one").key != node(tmp_path / "other", more="avx512_vnni").key
    assert node(tmp_path / "this", more="a b").key == node(tmp_path / "that", more="b a").key


def test_what_is_read(tmp_path: Path) -> None:
    seen = node(tmp_path)
    assert (seen.cpu, seen.features, seen.driver) == ("Some CPU @ 2.00GHz", "avx2 sse", "580.65.06")
    assert [(g.name, g.capability, g.pcie_generation, g.pcie_width, g.links) for g in seen.gpus] == [
        ("H200", "9.0", 5, 16, 4),
        ("H200", "9.0", 5, 16, 4),
    ]


@pytest.mark.parametrize("devices", [list, lambda: [SimpleNamespace(name="G", major=8, minor=0, total_memory=1)]])
def test_a_machine_without_information(devices: Callable[[], list[Any]], tmp_path: Path) -> None:
    seen = topology(tmp_path, lambda: iter(devices()))
    assert len(seen.key) == 32
    assert seen.driver == seen.cpu == ""


def test_this_machine_twice() -> None:
    assert topology().key == topology().key
