"""Scripts that people run by hand find what they import: no other test starts them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
OURS = ("pytest_exportready", "exportready_fixtures", "exportready_reference_models")
SCRIPTS = sorted([*(TESTS / "benchmarks").rglob("*.py"), *(TESTS / "zoo").rglob("*.py"), TESTS / "pictures.py"])


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_names_that_a_script_imports_from_us_exist(script: Path) -> None:
    """The statements alone are run: a script may need packages of an extra."""
    imports = [node for node in ast.walk(ast.parse(script.read_text())) if isinstance(node, ast.ImportFrom)]
    ours = [node for node in imports if (node.module or "").partition(".")[0] in OURS]
    exec(compile(ast.Module(ours, []), str(script), "exec"), {})
