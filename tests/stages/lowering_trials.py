"""A small module, exported with a dynamic batch, for the stages that lower programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from pytest_exportready.analysis.execution.trial import Exported, Trial
from pytest_exportready.case.export_case import ExportCase
from pytest_exportready.case.options import CaseOptions

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))

SUPPORTED = pytest.mark.parametrize(
    ("then", "kwargs"),
    [
        (lambda y: {"b": y.softmax(-1), "none": None, "a": (y + 1,)}, {}),
        (lambda y: (y, y.shape[0]), {"scale": 3.0}),
        (lambda y: (y * 10).long().sum(-1), {"mask": torch.tensor([0.0, 1.0, 1.0])}),
    ],
)
"""Outputs: dicts, None, sizes, integers. Inputs: masks, None, numbers."""


class Net(nn.Module):
    def __init__(self, then: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.linear, self.then = nn.Linear(4, 3), then

    def forward(self, x: Tensor, mask: Tensor | None = None, *, scale: float = 2.0) -> Any:
        y = self.linear(x) * scale
        return self.then(y if mask is None else y * mask)


def exported(then: Callable[[Tensor], Any], x: Tensor = X, most: int | None = 64, **kwargs: Any) -> Trial:
    """Export ``then`` after a linear layer, for at most ``most`` rows."""
    net = Net(then).eval()
    trial = Trial(ExportCase(net, (x,), kwargs), CaseOptions(), "non-strict")
    shapes = {"x": {0: Dim("batch", min=1, max=most)}, **dict.fromkeys(kwargs)}
    trial.exported = Exported(torch.export.export(net, (x,), kwargs, dynamic_shapes=shapes))
    return trial
