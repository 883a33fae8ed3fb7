from __future__ import annotations

import torch
from torch import nn

from pytest_exportready.analysis.module.patched_forward import patched_forwards


class Decorated(nn.Linear):
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x)


def test_named_with_how() -> None:
    patched = nn.Linear(2, 2)
    patched.forward = lambda x: x
    model = nn.Sequential(nn.Linear(2, 2), patched, Decorated(2, 2))
    assert patched_forwards(model) == [
        "1.forward (replaced on the instance)",
        "2.forward (decorated with torch.autocast)",
    ]
    assert patched_forwards(Decorated(2, 2)) == ["forward (decorated with torch.autocast)"]
