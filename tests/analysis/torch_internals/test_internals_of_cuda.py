"""Forks and CUDA, under the pretended CUDA."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from pretended_cuda import PretendedCuda

from pytest_exportready.analysis.torch_internals import cuda

ASKS = "torch.cuda.is_available()"
EXPORTS = "torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))"
REHEARSES = "from pytest_exportready.analysis.processes.warm_up import rehearse; rehearse()"


def printed(statements: str, environment: dict[str, str]) -> str:
    """Return what ``print`` prints in a Python process with torch."""
    script = f"import torch\nfrom pytest_exportready.analysis.torch_internals.cuda import *\n{statements}"
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize(("statement", "fit"), [("", True), (ASKS, False), (EXPORTS, False), (REHEARSES, True)])
def test_forks_can_use_cuda(pretended_cuda: PretendedCuda, statement: str, fit: bool, devices: int) -> None:
    """Not after a question for devices, which torch.export asks; the warm-up does not ask it."""
    program = f"{statement}\nprint(forks_can_use_cuda(), torch.cuda.is_initialized())"
    assert printed(program, pretended_cuda.environment(devices)) == f"{fit} False"


def test_forks_can_use_cuda_with_the_management_library(pretended_cuda: PretendedCuda) -> None:
    environment = {**pretended_cuda.environment(1, nvml=True), "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
    assert printed(f"print({ASKS}, forks_can_use_cuda())", environment) == "True True"


def test_without_devices(pretended_cuda: PretendedCuda) -> None:
    assert printed(f"print({ASKS}, forks_can_use_cuda())", pretended_cuda.environment(0)) == "False True"


def test_cuda_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """No device is there inside, and what torch says is unchanged outside."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with cuda.cuda_hidden():
        assert (torch.cuda.is_available(), torch.cuda.device_count()) == (False, 0)
    assert (torch.cuda.is_available(), torch.cuda.device_count()) == (True, 2)
