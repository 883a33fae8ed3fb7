from __future__ import annotations

import torch
from torch import nn

from pytest_exportready.analysis.execution.detectors.adapter_merge_flags import wrong_merge_flags


class Adapted(nn.Module):
    def __init__(self, merged: bool) -> None:
        super().__init__()
        self.weight, self.delta = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.full((2, 2), 0.5))
        self.merged = merged

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ (self.weight if self.merged else self.weight + self.delta)


X = torch.ones(1, 2)


def test_a_wrong_flag() -> None:
    model = nn.Sequential(Adapted(merged=True))
    golden = nn.Sequential(Adapted(merged=False))(X)
    assert wrong_merge_flags(model, ((X,), {}), golden, 1e-6) == ["0.merged"]
    assert model[0].merged


def test_correct_flags() -> None:
    assert wrong_merge_flags(Adapted(merged=True), ((X,), {}), X * 7, 1e-6) == []
    assert wrong_merge_flags(nn.Linear(2, 2), ((X,), {}), X, 1e-6) == []
