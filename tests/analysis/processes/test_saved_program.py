"""Requests to the loader process: what they import, and from where."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from pytest_exportready.analysis.processes import saved_program


def test_a_class_of_a_file_that_is_not_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest can import test files by path (``--import-mode=importlib``): a module in sys.modules suffices."""
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "shelf.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("shop.shelf")
    monkeypatch.undo()
    assert str(tmp_path) not in sys.path
    assert saved_program._search_path(["shop.shelf"])[-1] == str(tmp_path)
    assert saved_program._search_path(["shop"])[-1] == str(tmp_path)
    assert str(tmp_path) not in saved_program._search_path(["nowhere", "sys", "__main__"])
