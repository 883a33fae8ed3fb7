from __future__ import annotations

import sys
from collections import namedtuple
from pathlib import Path

import pytest

from pytest_exportready.cli import main


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
