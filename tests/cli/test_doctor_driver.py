from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_exportready.cli._doctor_driver import driver_rows
from pytest_exportready.cli._doctor_row import Row

NvidiaSmi = Callable[[str], None]
TWO = "0, NVIDIA H200, 580.65.06, Default\n1, NVIDIA H200, 580.65.06, Default\n"


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NvidiaSmi:
    """Replace nvidia-smi by a Python program."""

    def write(source: str) -> None:
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!{sys.executable}\n{source}")
        program.chmod(0o755)

    monkeypatch.setenv("PATH", str(tmp_path))
    return write


def found(gpus: int, tmp_path: Path, seconds: float = 30.0) -> list[Row]:
    return list(driver_rows(gpus, tmp_path / "kernel", seconds))


def test_gpus_are_listed_with_their_driver(nvidia_smi: NvidiaSmi, tmp_path: Path) -> None:
    """A warning between the rows is not a GPU."""
    nvidia_smi(f"print('''WARNING: infoROM is corrupted at gpu 0000:01:00.0\n{TWO}''')")
    (row,) = found(1, tmp_path)
    assert row.ok
    assert row.found == "driver 580.65.06; GPU 0: NVIDIA H200, 1: NVIDIA H200"


def test_a_gpu_for_one_process_is_a_warning(nvidia_smi: NvidiaSmi, tmp_path: Path) -> None:
    nvidia_smi(f"print('''{TWO.replace('Default', 'Exclusive_Process', 1)}''')")
    _, row = found(2, tmp_path)
    assert (row.name, row.state, row.found) == ("compute mode", "warning", "Exclusive_Process on GPU 0")
    assert "nvidia-smi -c DEFAULT" in row.fix


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (
            "import sys; sys.exit('Failed to initialize NVML: Driver/library version mismatch')",
            "fails: Failed to initialize NVML: Driver/library version mismatch",
        ),
        ("print('No devices were found')", "lists no GPU: No devices were found"),
        ("import os; os.abort()", "ended with signal SIGABRT"),
        ("import time; time.sleep(600)", "takes longer than 1 s"),
    ],
)
@pytest.mark.parametrize("gpus", [0, 1])
def test_why_it_fails_is_shown(nvidia_smi: NvidiaSmi, tmp_path: Path, source: str, problem: str, gpus: int) -> None:
    """No case leases a GPU then, so that a job with GPUs cannot run."""
    nvidia_smi(source)
    (row,) = found(gpus, tmp_path, seconds=1.0)
    assert row.found == problem
    assert row.state == ("missing" if gpus else "absent")
    assert row.fix


def test_a_program_that_cannot_be_started(nvidia_smi: NvidiaSmi, tmp_path: Path) -> None:
    nvidia_smi("")
    (tmp_path / "nvidia-smi").chmod(0o644)
    (row,) = found(1, tmp_path)
    assert "Permission denied" in row.found


def test_a_container_without_the_program(nvidia_smi: NvidiaSmi, tmp_path: Path) -> None:
    assert found(0, tmp_path) == []
    (row,) = found(1, tmp_path)
    assert row.state == "missing"
    assert "`utility`" in row.fix
    information = tmp_path / "kernel" / "0000:01:00.0" / "information"
    information.parent.mkdir(parents=True)
    information.touch()
    (row,) = found(1, tmp_path)
    assert row.state == "absent"
    assert "the kernel module lists 1 GPUs" in row.found
    shutil.rmtree(tmp_path / "kernel")
