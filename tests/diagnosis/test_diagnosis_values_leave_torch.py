"""Diagnosis values_leave_torch: the registration to write for the function in which the values leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

X = torch.linspace(0.1, 1.0, 12).reshape(3, 4)


def clipped(x: Tensor, quantile: float, steps: int = 2) -> Tensor:
    values = x.numpy()
    return torch.from_numpy(np.clip(values, None, np.quantile(values, quantile)))


class Solved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, on: bool) -> Tensor:
        return torch.from_numpy(np.sign(a.numpy()))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None


class Net(nn.Module):
    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


class Inline(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.from_numpy(x.numpy() + 1)


@pytest.mark.parametrize(
    ("model", "written"),
    [
        (Net(lambda x: clipped(x, 0.5)), "def clipped(x: torch.Tensor, quantile: float, steps: int) -> torch.Tensor"),
        (Net(lambda x: Solved.apply(x, True)), "def solved(a: torch.Tensor, on: bool) -> torch.Tensor"),
        (Inline(), "def inline(x: torch.Tensor) -> torch.Tensor"),
    ],
    ids=["function", "autograd function", "forward"],
)
def test_the_operator_to_write(model: nn.Module, written: str, diagnosed: Callable[..., Any]) -> None:
    """Named after the function, with the kinds of the arguments it was called with, as Python that compiles."""
    finding = diagnosed(model, X)
    assert finding.code == "ER420"
    assert written in finding.fix
    assert finding.file == __file__
    compile(finding.fix.partition("\n")[2], "fix", "exec")
    assert "tensor(" not in str(finding)
