"""The identity changes with the compiler's version, contents, parts and variables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_exportready.analysis.processes import compiler_identity as module
from pytest_exportready.analysis.processes.compiler_identity import compiler_identity

SCRIPT = """#!/bin/sh
case $1 in
  --version) cat {folder}/version;;
  -print-prog-name=cc1plus) echo {folder}/cc1plus;;
  -print-prog-name=*) echo ${{1#*=}};;
esac
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake compiler, the version it prints, a part of it and its assembler."""
    files = {"c++": SCRIPT.format(folder=tmp_path), "version": "cc 1.0", "cc1plus": "one", "as": "#!/bin/sh\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("CXX", str(tmp_path / "c++"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


def identity() -> tuple[str, ...]:
    module._program.cache_clear()  # as another process would begin
    return compiler_identity()


def _append(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text((folder / name).read_text() + "# newer\n") and None


CHANGES = {
    "its own file": _append("c++"),
    "what it says": _append("version"),
    "the compiler proper": _append("cc1plus"),
    "the assembler that is found first": _append("as"),
    "none": lambda folder: (folder / "c++").unlink(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_another_compiler(change: Callable[[Path], None], folder: Path) -> None:
    before = identity()
    assert identity() == before
    change(folder)
    assert identity() != before


@pytest.mark.parametrize("name", ["CXXFLAGS", "CPATH", "LIBRARY_PATH", "TORCHINDUCTOR_FREEZING", "LD_LIBRARY_PATH"])
def test_flags(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = identity()
    monkeypatch.setenv(name, "-O0")
    assert identity() != before


def test_paths_and_times_are_ignored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = identity()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder))
    monkeypatch.setenv("EDITOR", "vi")
    (folder / "cc1plus").touch()
    assert identity() == before
