"""Reference models on a machine with GPUs, the pretended ones: their verdicts are those of a machine without.

``python tests/reference_models/test_on_gpu_machines.py`` runs all models, scenarios and lowerings, in half an hour.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from pretended_cuda import PretendedCuda

from pytest_exportready.report.junit import read_junit

CONFTEST = """
import pytest, torch
torch.cuda.is_available()  # as a condition of `skipif` at the top of a test file
def pytest_itemcollected(item):
    item.add_marker(pytest.mark.export_ready(lower={lower!r}, strict="both"))
"""


def failures(pretended: PretendedCuda, folder: Path, gpus: int, lower: list[str], *arguments: str) -> dict[str, str]:
    """Return what is wrong with each case that is not ready, or that met CUDA in a forked process."""
    (folder / "conftest.py").write_text(CONFTEST.format(lower=lower))
    command = [sys.executable, "-m", "pytest", "--export-ready", "--export-ready-reference-models=always", *arguments]
    done = subprocess.run(command, cwd=folder, env=pretended.environment(gpus), capture_output=True, text=True)
    results = read_junit(folder / "exportready" / "junit.xml").results
    assert results, done.stdout + done.stderr
    print(f"{gpus} devices: {done.stdout[done.stdout.rindex('Ready') if 'Ready' in done.stdout else 0 :]}")
    assert "re-initialize CUDA" not in done.stdout + done.stderr + (folder / "exportready" / "junit.xml").read_text()
    return {result.nodeid: done.stdout for result in results if result.outcome != "passed"}


@pytest.mark.parametrize(
    ("gpus", "models", "lower"), [(1, "mlp", ["decompose", "aotinductor"]), (2, "lstm", ["decompose"])]
)
def test_reference_models(
    pretended_cuda: PretendedCuda, tmp_path: Path, gpus: int, models: str, lower: list[str]
) -> None:
    assert failures(pretended_cuda, tmp_path, gpus, lower, "-k", models) == {}


if __name__ == "__main__":
    for number in (1, 2):
        with tempfile.TemporaryDirectory() as libraries, tempfile.TemporaryDirectory() as project:
            cuda = PretendedCuda(Path(libraries))
            for nodeid, output in failures(cuda, Path(project), number, ["decompose", "aotinductor"]).items():
                print(nodeid, output, sep="\n")
