"""Code that a case can reach counts, wherever it is imported; code that it cannot reach does not."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_exportready.judge.cache import code

FILES = {
    "zoo_net.py": "from zoo_parts import layer\n\n\ndef lazily():\n    from zoo_late import late\n\n    return late\n",
    "zoo_parts/__init__.py": "from . import layer\n",
    "zoo_parts/layer.py": "from ..zoo_parts import deep\n",
    "zoo_parts/deep.py": "D = 1\n",
    "zoo_late.py": "def late():\n    return 1\n",
    "zoo_other.py": "O = 1\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text.replace("from ..zoo_parts", "from zoo_parts"))
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("zoo_net", "zoo_late", "zoo_other"):
        importlib.import_module(name)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("zoo_")]:
        del sys.modules[name]


def fingerprint() -> str:
    code._file.cache_clear()  # as another process would begin
    code._imports.cache_clear()
    return code.code_fingerprint(["zoo_net"])


@pytest.mark.parametrize("name", [name for name in FILES if name != "zoo_other.py"])
def test_a_file_that_is_reached_counts(name: str, folder: Path) -> None:
    before = fingerprint()
    (folder / name).write_text((folder / name).read_text() + "# changed\n")
    assert fingerprint() != before


def test_a_file_that_is_not_reached_does_not_count(folder: Path) -> None:
    before = fingerprint()
    (folder / "zoo_other.py").write_text("O = 2\n")
    assert fingerprint() == before


def test_what_is_loaded_besides_does_not_count(folder: Path) -> None:
    before = fingerprint()
    (folder / "zoo_more.py").write_text("M = 1\n")
    importlib.import_module("zoo_more")
    assert fingerprint() == before


def test_code_without_a_file_is_no_error() -> None:
    assert code.code_fingerprint(["builtins", "no_such_module", "__main__"])
