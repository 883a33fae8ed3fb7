"""Type checkers understand the public types as an editor shows them, and refuse wrong uses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
USES = Path(__file__).parent / "uses.py"


def check(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a type checker on the file of uses, outside of the checkout."""
    path = os.pathsep.join(map(str, (ROOT, ROOT / "fixtures", ROOT / "reference_models")))
    environment = {**os.environ, "MYPYPATH": path, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, cwd=folder, env=environment, check=False
    )


def test_mypy(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    done = check("mypy", "--strict", f"--cache-dir={ROOT / '.mypy_cache'}", str(USES), folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pyright(tmp_path: Path) -> None:
    pytest.importorskip("pyright")
    available = check("pyright", "--version", folder=tmp_path)
    if available.returncode:
        pytest.skip(
            f"pyright cannot start, as it finds no node: {(available.stderr or available.stdout).strip()[-200:]}"
        )
    (tmp_path / "pyrightconfig.json").write_text(
        f'{{"include": ["{USES}"], "extraPaths": ["{ROOT}"], "reportUnnecessaryTypeIgnoreComment": "error"}}'
    )
    done = check("pyright", "--pythonpath", sys.executable, "--project", str(tmp_path), folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
