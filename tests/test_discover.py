"""discover: every module of a package declares its object, or is named in an error."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from pytest_exportready.discover import DiscoveryError, discover, module_names


def package(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch, **modules: str) -> ModuleType:
    (folder / name).mkdir()
    for module, text in {"__init__": "", **modules}.items():
        (folder / name / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    return import_module(name)


def test_sorted_and_without_underscores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Listing the names does not import the modules."""
    found = package(tmp_path, "discovered_one", monkeypatch, b="THING = 2", a="THING = 1", _c="raise ValueError")
    assert module_names(found) == ["a", "b"]
    assert "discovered_one.a" not in sys.modules
    assert list(discover(found, "THING", int).items()) == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("text", ["", "THING = 'text'", "OTHER = 1"])
def test_a_module_without_its_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """An error names the file and the fix."""
    found = package(tmp_path, f"discovered_{len(text)}", monkeypatch, a=text)
    with pytest.raises(DiscoveryError) as caught:
        discover(found, "THING", int)
    assert str(tmp_path) in str(caught.value)
    assert "Fix:" in str(caught.value)
