"""Reference models on a machine with GPUs, the pretended ones: their verdicts are those of a machine without.

``python tests/reference_models/test_on_gpu_machines.py`` runs all models, scenarios and lowerings, in half an hour.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from pretended_cuda import PretendedCuda

from pytest_exportready.report.junit import read_junit
from pytest_exportready.report.run import Run

PLUGIN = """
import pytest, torch
torch.cuda.is_available()  # as the condition of `skipif` at the top of a test file does
def pytest_itemcollected(item):
    item.add_marker(pytest.mark.export_ready(lower={lower!r}, strict="both"))
"""


def judged(environment: dict[str, str], folder: Path, lower: list[str], *arguments: str) -> Run:
    """Judge reference models, each in both export modes and with ``lower``."""
    (folder / "lowered.py").write_text(PLUGIN.format(lower=lower))
    command = [sys.executable, "-m", "pytest", "-p", "lowered", "--export-ready", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    junit = folder / "exportready" / "junit.xml"
    assert junit.exists(), done.stdout + done.stderr
    assert "re-initialize CUDA" not in done.stdout + done.stderr + junit.read_text()
    return read_junit(junit)


def count(run: Run, lower: list[str]) -> Counter[str]:
    """Count outcomes of cases, and those of lowered programs."""
    stages = [stage for result in run.results if result.readiness for stage in result.readiness.stages]
    return Counter(run.counts) + Counter(f"{one.name} {one.outcome}" for one in stages if one.name in lower)


@pytest.mark.parametrize(
    ("gpus", "chosen", "lower"),
    [(1, "mlp and (plain or fsdp2)", ["decompose"]), (2, "lstm and (ddp_amp or fsdp2)", ["decompose"])],
)
def test_reference_models(
    pretended_cuda: PretendedCuda, tmp_path: Path, gpus: int, chosen: str, lower: list[str]
) -> None:
    run = judged(pretended_cuda.environment(gpus), tmp_path, lower, "-k", chosen)
    assert count(run, lower) == {"passed": 2, **{f"{name} passed": 4 for name in lower}}


if __name__ == "__main__":
    for number in (1, 2):
        with tempfile.TemporaryDirectory() as libraries, tempfile.TemporaryDirectory() as project:
            environment = PretendedCuda(Path(libraries)).environment(number)
            print(
                number,
                "devices:",
                count(judged(environment, Path(project), names := ["decompose", "aotinductor"]), names),
            )
