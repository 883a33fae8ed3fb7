"""Diagnosis activation_checkpointing."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from pytest_exportready import export_ready_check


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.block, x, use_reentrant=False)


def test_strict_export_trips_over_it_and_non_strict_does_not() -> None:
    """torch's internal key error becomes advice; where the export succeeds nothing is told."""
    strict = export_ready_check(Net().eval(), (torch.randn(2, 3),), strict=True, stages=["export"])
    assert [finding.code for finding in strict.errors] == ["ER404"]
    assert "strict=False" in strict.errors[0].fix
    assert export_ready_check(Net().eval(), (torch.randn(2, 3),), stages=["export"]).ready
