"""What nvidia-smi prints on machines with healthy and with broken GPUs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pytest_exportready.analysis.processes import nvidia_smi
from pytest_exportready.analysis.processes.nvidia_smi import Device, NoListing, NotInstalled, present, whole

REST = "NVIDIA H100, 580.65.06, Default"
HEALTHY = f"0, GPU-aa, 81559, 81000, {REST}\n1, GPU-bb, 81559, 40000, {REST}\n"
ONE = Device("0", "GPU-aa", 81000, 81559, *REST.split(", "))
OTHER = Device("1", "GPU-bb", 40000, 81559, *REST.split(", "))
PLAIN_LIST = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aa)\nGPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-bb)\n"
MIG_LIST = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aa)
  MIG 3g.40gb     Device  0: (UUID: MIG-11111111-2222)
  MIG 1g.10gb     Device  1: (UUID: MIG-33333333-4444)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-bb)
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a file in the place of nvidia-smi, and let the kernel module list nothing."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(nvidia_smi, "_OF_KERNEL", tmp_path / "kernel")
    path = tmp_path / "nvidia-smi"
    path.write_text("")
    path.chmod(0o755)
    return path


def prints(program: Path, table: str, listing: str = PLAIN_LIST, status: int = 0) -> None:
    source = f"import sys\nprint({listing!r} if '-L' in sys.argv else {table!r}, end='')\nsys.exit({status})\n"
    program.write_text(f"#!{sys.executable}\n{source}")


@pytest.mark.parametrize(
    ("table", "found"),
    [
        (HEALTHY, [ONE, OTHER]),
        ("WARNING: infoROM is corrupted at gpu 0000:3B:00.0\n" + HEALTHY, [ONE, OTHER]),
        (HEALTHY.splitlines()[0] + "\n1" + ", [Unknown Error]" * 6, [ONE]),
        (f"0, GPU-aa, [N/A], [N/A], {REST}\n", [Device("0", "GPU-aa", None, None, *REST.split(", "))]),
    ],
)
def test_tables(installed: Path, table: str, found: list[Device]) -> None:
    """Lines that are no row of a working GPU are warnings."""
    prints(installed, table)
    assert present() == whole() == found


@pytest.mark.parametrize(
    ("table", "status", "why"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch\n", 18, "fails: Failed to initialize NVML"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", 9, "couldn't communicate"),
        ("Unable to determine the device handle for GPU0000:05:00.0: Unknown Error\n", 0, "lists no GPU: Unable to"),
        ("No devices were found\n", 0, "lists no GPU: No devices were found"),
        ("", 0, "lists no GPU: it prints nothing"),
        ("", 1, "fails: it prints nothing"),
    ],
)
def test_a_driver_that_does_not_work(installed: Path, table: str, status: int, why: str) -> None:
    prints(installed, table, status=status)
    with pytest.raises(NoListing, match=why):
        present()


@pytest.mark.parametrize(
    ("source", "seconds", "why"),
    [
        ("import os; os.abort()", 60, "ended with signal SIGABRT"),
        ("import time; time.sleep(600)", 1, "longer than 1 s"),
    ],
)
def test_a_program_that_crashes_or_hangs(installed: Path, source: str, seconds: float, why: str) -> None:
    installed.write_text(f"#!{sys.executable}\n{source}")
    with pytest.raises(NoListing, match=why):
        whole(seconds)


def test_a_program_that_cannot_be_started(installed: Path) -> None:
    installed.write_text("#!/no/such/interpreter\n")
    with pytest.raises(NoListing):
        whole()


def test_a_divided_gpu(installed: Path) -> None:
    """Its parts are listed; the other GPU stays whole."""
    prints(installed, HEALTHY, MIG_LIST)
    assert present() == [*(Device(k, k) for k in ("MIG-11111111-2222", "MIG-33333333-4444")), OTHER]
    assert whole() == [ONE, OTHER]


def test_without_nvidia_smi(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel module lists the GPUs by bus address; a machine without it has none."""
    installed.unlink()
    monkeypatch.setenv("PATH", str(installed.parent))
    with pytest.raises(NotInstalled, match="is not installed"):
        present()
    for bus, uuid in (("0000:5e:00.0", "GPU-0b"), ("0000:3b:00.0", "GPU-0a")):
        (installed.parent / "kernel" / bus).mkdir(parents=True)
        information = f"Model: \t NVIDIA A10\nGPU UUID: \t {uuid}\n"
        (installed.parent / "kernel" / bus / "information").write_text(information)
    assert present() == [Device("0", "GPU-0a"), Device("1", "GPU-0b")]
    with pytest.raises(NotInstalled):
        whole()
