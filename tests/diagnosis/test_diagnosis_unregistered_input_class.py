"""Diagnosis unregistered_input_class."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from pytest_exportready import export_ready_check


@dataclass
class Batch:
    x: Tensor


class TakesBatch(nn.Module):
    def forward(self, batch: Batch) -> Tensor:
        return batch.x * 2


class GivesBatch(nn.Module):
    def forward(self, x: Tensor) -> Batch:
        return Batch(x * 2)


@pytest.mark.parametrize("strict", [False, True])
def test_input_and_output(strict: bool) -> None:
    """The class is named, with its argument, and the line that registers it."""
    x = torch.ones(2, 3)
    (finding,) = export_ready_check(TakesBatch().eval(), (Batch(x),), strict=strict, stages=["export"]).errors
    assert (finding.code, finding.where) == ("ER402", "argument batch (class Batch)")
    assert "register_dataclass(Batch)" in finding.fix
    (finding,) = export_ready_check(GivesBatch().eval(), (x,), strict=strict, stages=["export"]).errors
    assert finding.code == "ER402"
    assert "Batch" in finding.where
