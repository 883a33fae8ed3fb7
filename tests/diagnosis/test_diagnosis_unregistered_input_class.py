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


@pytest.mark.parametrize("strict", [False, True])
def test_the_argument_is_named(strict: bool) -> None:
    """The class is named, with its argument, and the line that registers it."""
    x = torch.ones(2, 3)
    (finding,) = export_ready_check(TakesBatch().eval(), (Batch(x),), strict=strict, stages=["export"]).errors
    assert (finding.code, finding.where) == ("ER402", "argument batch (class Batch)")
    assert "register_dataclass(Batch)" in finding.fix


class Plain:
    def __init__(self, x: Tensor) -> None:
        self.x = x


class TakesPlain(nn.Module):
    def forward(self, batch: list[Plain]) -> Tensor:
        return batch[0].x * 2


@pytest.mark.parametrize("strict", [False, True])
def test_only_a_dataclass_can_be_registered_in_a_line(strict: bool) -> None:
    """Its place within the argument is named."""
    (finding,) = export_ready_check(
        TakesPlain().eval(), ([Plain(torch.ones(2, 3))],), strict=strict, stages=["export"]
    ).errors
    assert (finding.code, finding.where) == ("ER402", "argument batch[0] (class Plain)")
    assert "register_dataclass" not in finding.fix
