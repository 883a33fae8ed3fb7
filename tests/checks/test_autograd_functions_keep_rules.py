"""Check autograd_functions_keep_rules: a warning if gradients matter, otherwise a note."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pytest_exportready import assert_autograd_functions_keep_rules, export_ready_check


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.x = x
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        result: Tensor = 2 * ctx.x * grad
        return result


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Any:
        return Square.apply(self.linear(x))


@pytest.mark.parametrize(("trainable", "severity"), [(True, "warning"), (False, "note")])
def test_severity(trainable: bool, severity: str) -> None:
    """Never an error: the stage gradients measures whether gradients are wrong."""
    torch.manual_seed(0)
    readiness = export_ready_check(
        nn.Sequential(Net()).eval(), (torch.randn(4, 3),), trainable=trainable, stages=["gradients"]
    )
    assert readiness.ready
    (finding,) = [finding for finding in readiness.findings if finding.code == "ER160"]
    assert (finding.severity, finding.where, finding.file) == (severity, "Square in 0", __file__)
    assert finding.line == Square.forward.__code__.co_firstlineno + 2


def test_the_assertion() -> None:
    assert_autograd_functions_keep_rules(nn.Linear(2, 2))
    with pytest.raises(AssertionError, match="save_for_backward"):
        assert_autograd_functions_keep_rules(Net())
