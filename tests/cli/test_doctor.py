from __future__ import annotations

import subprocess
import sys
import warnings
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
from pretended_cuda import PretendedCuda

from pytest_exportready.analysis.processes import gpu_trial, nvidia_smi
from pytest_exportready.analysis.processes.child import ProcessDied
from pytest_exportready.analysis.processes.nvidia_smi import Device, NoListing, NotInstalled
from pytest_exportready.cli import _doctor_gpus, main
from pytest_exportready.cli._doctor_row import Row
from pytest_exportready.report.junit import read_junit


def rows(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    return {line[:20].strip(): line[20:].strip() for line in capsys.readouterr().out.splitlines() if line}


def test_a_machine_that_can_do_the_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--folder", str(tmp_path / "new" / "exportready")]) == 0
    state = rows(capsys)
    assert state["torch"].startswith("ok")
    assert state["report folder"].startswith(f"ok       {tmp_path}")
    assert list(tmp_path.iterdir()) == []


def test_no_torch(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["doctor", "--folder", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "missing  cannot be imported" in out
    assert "Fix: Run `python -m pip install 'torch>=2.13'`." in out
    assert out.endswith("Can this machine run pytest --export-ready? No: missing torch\n")


def test_a_full_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage(10, 10, 1000))
    assert main(["doctor", "--folder", str(tmp_path)]) == 1
    assert "0.0 GiB free. Fix: Free 1 GiB on its disk" in capsys.readouterr().out


def test_no_write_access(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    assert main(["doctor", "--folder", str(tmp_path)]) == 1
    assert "Permission denied. Fix: Give write access" in capsys.readouterr().out
    assert main(["doctor", "--folder", str(tmp_path), "--gpus=1"]) == 1
    assert "nvidia-smi          missing  needs a temporary folder" in capsys.readouterr().out


class Gpus:
    """Two GPUs, 3 and 30 GiB free of 40."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free, self.fails = [30 << 30, 3 << 30], dict[str, str]()
        monkeypatch.setattr(_doctor_gpus, "driver_rows", lambda _: iter(()))
        monkeypatch.setattr(gpu_trial, "seen", lambda: (len(self.free), []))
        monkeypatch.setattr(gpu_trial, "tried", self.tried)
        monkeypatch.setattr(_doctor_gpus, "nccl_row", lambda _: Row("NCCL", True, "all_reduce"))
        monkeypatch.setattr("torch.backends.cuda.is_built", lambda: True)
        monkeypatch.setattr("shutil.disk_usage", lambda _: namedtuple("usage", "total free")(8 << 30, 8 << 30))

    def tried(self, device: str) -> dict[str, Any]:
        if device in self.fails:
            raise gpu_trial.GpuFails(self.fails[device])
        index = int(device[-1])
        return {"name": f"H{index}", "free": self.free[index], "total": 40 << 30}


@pytest.mark.parametrize(
    ("asked", "missing"),
    [
        ([], ""),
        (["--gpus=1", "--memory-gib=20"], ""),
        (["--gpus=2"], ""),
        (["--gpus=2", "--memory-gib=20"], "GPU 1: H1, 3.0 of 40.0 GiB free, 20 needed"),
        (["--gpus=3"], "GPUs: 2 of 3 needed"),
    ],
)
def test_gpus_that_a_job_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, asked: list[str], missing: str
) -> None:
    """A shortage is the machine's: a JUnit file says so, and no model is blamed."""
    Gpus(monkeypatch)
    junit = tmp_path / "junit.xml"
    assert main(["doctor", "--folder", str(tmp_path), "--junit", str(junit), *asked]) == bool(missing)
    if not missing:
        assert not junit.exists()
        return
    run = read_junit(junit)
    assert run.state == "inconclusive"
    assert run.counts["infra"] == 1
    assert run.results[0].message.endswith(f"is unsuitable: {missing}")


def test_a_gpu_that_is_needed_and_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Gpus(monkeypatch).free.clear()
    assert main(["doctor", "--folder", str(tmp_path)]) == 0
    assert main(["doctor", "--folder", str(tmp_path), "--gpus=1", "--junit", str(tmp_path)]) == 1
    output = capsys.readouterr()
    assert "not available to this torch; 1 needed. Fix: If the machine has one" in output.out
    assert "cannot be written" in output.err


@pytest.mark.parametrize(
    ("device", "error", "fix"),
    [
        ("cuda:0", "AcceleratorError: CUDA error: no kernel image is available", "Install a build of torch for"),
        ("cuda:1", "the process died of SIGSEGV", "Stop the processes"),
    ],
)
def test_gpus_that_do_not_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, device: str, error: str, fix: str
) -> None:
    """They are not connected."""
    Gpus(monkeypatch).fails[device] = error
    assert main(["doctor", "--gpus=2"]) == 1
    state = rows(capsys)
    assert error in state[f"GPU {device[-1]}"]
    assert fix in state[f"GPU {device[-1]}"]
    assert "NCCL" not in state


def test_the_driver_crashes_while_gpus_are_counted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = gpu_trial.seen
    Gpus(monkeypatch)
    monkeypatch.setattr(gpu_trial, "seen", seen)

    def dies(request: dict[str, Any], seconds: float) -> dict[str, Any]:
        raise ProcessDied("the process ended with signal SIGABRT")

    monkeypatch.setattr(gpu_trial.LOADER, "ask", dies)
    assert main(["doctor", "--gpus=1"]) == 1
    assert "counting GPUs with torch fails: the process ended with signal SIGABRT. Fix: " in rows(capsys)["GPU"]


@pytest.mark.parametrize(("gpus", "state"), [(1, "warning  0.1 GiB"), (2, "missing  0.1 GiB")])
def test_shared_memory_of_a_container(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, gpus: int, state: str
) -> None:
    Gpus(monkeypatch)
    monkeypatch.setattr("shutil.disk_usage", lambda _: namedtuple("usage", "total free")(64 << 20, 8 << 30))
    assert main(["doctor", f"--gpus={gpus}"]) == gpus - 1
    assert rows(capsys)["/dev/shm"].startswith(state)


def test_gpus_that_work(tmp_path: Path, pretended_cuda: PretendedCuda) -> None:
    """A kernel runs on those that are needed, and NCCL, which is pretended, too; the others are not touched."""

    def printed(gpus: int, **variables: str) -> str:
        start = "import sys; from pytest_exportready.cli import main; main(sys.argv[1:])"
        command = [sys.executable, "-c", start, "doctor", f"--gpus={gpus}", "--memory-gib=1"]
        environment = {**pretended_cuda.environment(2), **variables}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True).stdout

    one = printed(1)
    assert "Pretended GPU, 8.0 of 8.0 GiB free" in one
    assert "GPU 1               ok       not tried: it is not needed" in one
    assert "all_reduce over 2 GPUs" in printed(2)
    assert "a matrix product fails: OutOfMemoryError" in printed(1, PRETENDED_MIB="1")


def test_the_warning_of_torch_is_reported(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    text = "CUDA initialization: The NVIDIA driver on your system is too old (found version 11040)."

    def unavailable() -> bool:
        warnings.warn(f"{text} (Triggered internally at CUDAFunctions.cpp:119.)", stacklevel=1)
        return False

    monkeypatch.setattr("torch.cuda.is_available", unavailable)
    reply = gpu_trial.count({})
    Gpus(monkeypatch)
    monkeypatch.setattr(gpu_trial, "seen", lambda: (reply["count"], reply["warned"]))
    assert main(["doctor", "--gpus=1"]) == 1
    assert f"1 needed; torch: {text} Fix: Update the driver" in rows(capsys)["GPU"]


H200 = "NVIDIA H200", "580.65.06"


def listed(gpus: int, monkeypatch: pytest.MonkeyPatch, *found: Device | NoListing) -> list[Row]:
    """Return the rows about the driver if nvidia-smi lists ``found``, or fails with it."""

    def whole() -> list[Device]:
        for one in found:
            if isinstance(one, NoListing):
                raise one
        return [one for one in found if isinstance(one, Device)]

    monkeypatch.setattr(nvidia_smi, "whole", whole)
    return list(_doctor_gpus.driver_rows(gpus))


def test_gpus_are_listed_with_their_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = [Device(str(n), f"GPU-{n}", 1, 1, *H200, "Default") for n in range(2)]
    (row,) = listed(1, monkeypatch, *devices)
    assert row == Row("nvidia-smi", True, "driver 580.65.06; GPU 0: NVIDIA H200, 1: NVIDIA H200")


def test_a_gpu_for_one_process_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    _, row = listed(2, monkeypatch, Device("0", "GPU-0", 1, 1, *H200, "Exclusive_Process"))
    assert (row.name, row.state, row.found) == ("compute mode", "warning", "Exclusive_Process on GPU 0")
    assert "nvidia-smi -c DEFAULT" in row.fix


@pytest.mark.parametrize(("gpus", "state"), [(0, "absent"), (1, "missing")])
def test_a_driver_that_does_not_work(monkeypatch: pytest.MonkeyPatch, gpus: int, state: str) -> None:
    """No case leases a GPU then, so that a job with GPUs cannot run."""
    (row,) = listed(gpus, monkeypatch, NoListing("fails: Driver/library version mismatch"))
    assert (row.state, row.found) == (state, "fails: Driver/library version mismatch")
    assert "Reboot the machine" in row.fix


def test_a_container_without_nvidia_smi(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = NotInstalled("is not installed")
    monkeypatch.setattr(nvidia_smi, "of_kernel", list)
    assert listed(0, monkeypatch, missing) == []
    (row,) = listed(1, monkeypatch, missing)
    assert row.state == "missing"
    assert "`utility`" in row.fix
    monkeypatch.setattr(nvidia_smi, "of_kernel", lambda: [Device("0", "GPU-0")])
    (row,) = listed(1, monkeypatch, missing)
    assert row.state == "absent"
    assert "the kernel module lists 1 GPUs" in row.found
