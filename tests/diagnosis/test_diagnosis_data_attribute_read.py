"""Diagnosis data_attribute_read: the line at which forward, or a Function in it, reads .data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

X = torch.linspace(0.1, 1.0, 12).reshape(3, 4)


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.data.round()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


class Through(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Any:
        return Rounded.apply(self.linear(x))


class Plain(Through):
    def forward(self, x: Tensor) -> Any:
        return self.linear(x).data * 2


class Detached(Through):
    def forward(self, x: Tensor) -> Any:
        return self.linear(x).detach() * 2


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("model", "reads"), [(Through, Rounded.forward), (Plain, Plain.forward)])
def test_the_line(model: type[nn.Module], reads: Any, diagnosed: Callable[..., Any]) -> None:
    """Strict export does not fail there: it stores a constant without values, which the stage export tells."""
    finding = diagnosed(nn.Sequential(model()).eval(), X)
    assert (finding.code, finding.file) == ("ER428", __file__)
    assert finding.line in range(reads.__code__.co_firstlineno + 1, reads.__code__.co_firstlineno + 3)
    assert "detach()" in finding.fix


def test_detach_is_recorded(diagnosed: Callable[..., Any]) -> None:
    assert diagnosed(Detached().eval(), X) is None
