from __future__ import annotations

import sys
from collections import namedtuple
from pathlib import Path

import pytest

from pytest_exportready.cli import main
from pytest_exportready.report.junit import read_junit


def rows(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    return {line[:20].strip(): line[20:].strip() for line in capsys.readouterr().out.splitlines() if line}


def test_a_machine_that_can_do_the_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--folder", str(tmp_path / "new" / "exportready")]) == 0
    told = rows(capsys)
    assert told["torch"].startswith("ok")
    assert told["report folder"].startswith(f"ok       {tmp_path}")
    assert list(tmp_path.iterdir()) == []


def test_no_torch(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["doctor", "--folder", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "missing  cannot be imported" in out
    assert "Fix: python -m pip install 'torch>=2.13'" in out
    assert out.endswith("Can this machine run pytest --export-ready? No: missing torch\n")


def test_a_full_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage(10, 10, 1000))
    assert main(["doctor", "--folder", str(tmp_path)]) == 1
    assert "0.0 GiB free. Fix: free 1 GiB on its disk" in capsys.readouterr().out


def test_no_write_access(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    assert main(["doctor", "--folder", str(tmp_path)]) == 1
    assert "Permission denied. Fix: give write access" in capsys.readouterr().out


class Gpus:
    """torch.cuda with two GPUs, 3 and 30 GiB free of 40."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        free = [30 << 30, 3 << 30]
        monkeypatch.setattr("torch.cuda.is_available", lambda: True)
        monkeypatch.setattr("torch.cuda.device_count", lambda: len(free))
        monkeypatch.setattr("torch.cuda.get_device_name", lambda index: f"H{index}")
        monkeypatch.setattr("torch.cuda.mem_get_info", lambda index: (free[index], 40 << 30))


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
    told = read_junit(junit)
    assert told.state == "can't tell"
    assert told.counts["infra"] == 1
    assert told.results[0].message.endswith(f"cannot do the job: {missing}")


def test_a_gpu_that_is_needed_and_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["doctor", "--folder", str(tmp_path)]) == 0
    assert main(["doctor", "--folder", str(tmp_path), "--gpus=1", "--junit", str(tmp_path)]) == 1
    told = capsys.readouterr()
    assert "none that this torch can use; 1 needed. Fix: if there is one" in told.out
    assert "cannot be written" in told.err
