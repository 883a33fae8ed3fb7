"""What the program keeps and does not read; a weight read under the name of its tie is read."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from pytest_exportready import export_ready_check
from pytest_exportready.analysis.program.unused_state import unread_state


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.tied = nn.Linear(4, 4, bias=False)
        self.tied.weight = self.a.weight
        self.norm = nn.BatchNorm1d(4)
        self.aux = nn.Linear(4, 2)
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.tied(self.a(x)))
        return self.aux(y) if self.training else y


@pytest.mark.parametrize("strict", [False, True])
def test_unread(strict: bool) -> None:
    program = torch.export.export(Net().eval(), (torch.ones(2, 4),), strict=strict)
    assert sorted(unread_state(program)) == ["aux.bias", "aux.weight", "seen"]


def test_told_once_as_information() -> None:
    readiness = export_ready_check(Net().eval(), (torch.randn(2, 4),), stages=["export"])
    (finding,) = [finding for finding in readiness.findings if finding.code == "ER143"]
    assert (finding.severity, finding.where) == ("note", "aux.weight, aux.bias, seen")
