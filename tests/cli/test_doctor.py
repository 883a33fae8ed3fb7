from __future__ import annotations

import subprocess
import sys
import warnings
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
from pretended_cuda import PretendedCuda

from pytest_exportready.analysis.processes import gpu_trial
from pytest_exportready.cli import main
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


class Gpus:
    """torch.cuda with two GPUs, 3 and 30 GiB free of 40."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        free = [30 << 30, 3 << 30]
        monkeypatch.setattr("torch.cuda.is_available", lambda: True)
        monkeypatch.setattr("torch.cuda.device_count", lambda: len(free))
        monkeypatch.setattr("torch.cuda.get_device_name", lambda index: f"H{index}")
        self.free, self.fails = free, dict[str, str]()
        monkeypatch.setattr(gpu_trial, "tried", self.tried)
        monkeypatch.setattr(gpu_trial, "meet", self.meet)
        monkeypatch.setattr("shutil.disk_usage", lambda _: namedtuple("usage", "total free")(8 << 30, 8 << 30))

    def tried(self, device: str) -> dict[str, Any]:
        if device in self.fails:
            raise gpu_trial.GpuFails(self.fails[device])
        index = int(device[-1])
        return {"name": f"H{index}", "free": self.free[index], "total": 40 << 30}

    def meet(self, gpus: int) -> None:
        if "NCCL" in self.fails:
            raise gpu_trial.GpuFails(self.fails["NCCL"])


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
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["doctor", "--folder", str(tmp_path)]) == 0
    assert main(["doctor", "--folder", str(tmp_path), "--gpus=1", "--junit", str(tmp_path)]) == 1
    output = capsys.readouterr()
    assert "not available to this torch; 1 needed. Fix: If the machine has one" in output.out
    assert "cannot be written" in output.err


@pytest.mark.parametrize(
    ("what", "error", "row", "fix"),
    [
        (
            "cuda:0",
            "AcceleratorError: CUDA error: no kernel image is available",
            "GPU 0",
            "Install a build of torch for",
        ),
        ("cuda:1", "the process died of SIGSEGV", "GPU 1", "Stop the processes"),
        ("NCCL", "an all_reduce over 2 GPUs takes longer than 60 s", "NCCL", "--shm-size=1g"),
    ],
)
def test_gpus_that_do_not_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, what: str, error: str, row: str, fix: str
) -> None:
    Gpus(monkeypatch).fails[what] = error
    assert main(["doctor", "--gpus=2"]) == 1
    state = rows(capsys)[row]
    assert error in state
    assert fix in state


def test_gpus_that_work(tmp_path: Path, pretended_cuda: PretendedCuda) -> None:
    """A kernel runs on those that are needed, and NCCL, which is pretended, too; the others are not touched."""

    def printed(gpus: int, **variables: str) -> str:
        start = "import sys; from pytest_exportready.cli import main; main(sys.argv[1:])"
        command = [sys.executable, "-c", start, "doctor", f"--gpus={gpus}", "--memory-gib=1"]
        environment = {**pretended_cuda.environment(2), **variables}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True).stdout

    one = printed(1)
    assert "Pretended GPU, 8.0 of 8.0 GiB free" in one
    assert "GPU 1               ok       Pretended GPU, not tried: it is not needed" in one
    assert "all_reduce over 2 GPUs" in printed(2)
    assert "a matrix product fails: OutOfMemoryError" in printed(1, PRETENDED_MIB="1")


def test_a_driver_that_is_too_old(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable() -> bool:
        warnings.warn("CUDA initialization: The NVIDIA driver on your system is too old (found 11040).", stacklevel=1)
        return False

    monkeypatch.setattr("torch.cuda.is_available", unavailable)
    assert main(["doctor", "--folder", str(tmp_path), "--gpus=1"]) == 1
    assert "torch: CUDA initialization: The NVIDIA driver on your system is too old" in capsys.readouterr().out
