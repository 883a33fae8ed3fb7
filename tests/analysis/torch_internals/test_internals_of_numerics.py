"""The precision of kernels: full while cases are judged, and afterwards what the user has set, by either interface."""

from __future__ import annotations

import subprocess
import sys

import pytest

SETTINGS = {
    "nothing": "pass",
    "TF32 off": "torch.backends.cudnn.allow_tf32 = False",
    "TF32 everywhere": "torch.set_float32_matmul_precision('high'); torch.backends.cudnn.benchmark = True",
    "one operator": "torch.backends.cudnn.conv.fp32_precision = 'ieee'",
    "products by their own name": "torch.backends.cuda.matmul.fp32_precision = 'tf32'",
    "everything by its own name": "torch.backends.fp32_precision = 'tf32'",
    "shorter sums": "torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False",
}
WITHIN = ["[False, False, False, False] False exported", "True True"]
PROGRAM = """
import torch
from torch import nn
from pytest_exportready.analysis.torch_internals.numerics import full_precision, precision_settings

def read(setting):
    try:
        return setting()
    except RuntimeError:
        return "refused"
def state():
    old = lambda: torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision
    return precision_settings(), *map(read, old)
def export():
    return read(lambda: torch.export.export(nn.Linear(2, 2), (torch.ones(1, 2),)).run_decompositions() and "exported")

{setting}
exported = export()  # first, as it leaves other settings behind where it fails
before = state()
with full_precision():
    backends = torch.backends
    names = backends.cudnn.conv, backends.cudnn.rnn, backends.cuda.matmul, backends.mkldnn.matmul
    print([name.fp32_precision in ("tf32", "bf16") for name in names], backends.cudnn.benchmark, export())
print(state() == before or (state(), before), export() == exported)
"""


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_full_precision(setting: str) -> None:
    """In a process of its own: torch does not read old flags anymore once a new one is set."""
    command = [sys.executable, "-c", PROGRAM.format(setting=setting)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == WITHIN, done.stdout + done.stderr
