"""Diagnosis data_dependent_branch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pytest_exportready import export_ready_check

X = torch.linspace(-1.0, 1.0, 12).reshape(4, 3)


class Net(nn.Module):
    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


def branch(x: Tensor) -> Tensor:
    return x if x.sum() > 0 else -x


def loop(x: Tensor) -> Tensor:
    for _ in range(int(x.sum().abs()) + 1):
        x = x * 2
    return x


def selected_rows(x: Tensor) -> Tensor:
    kept = x[x[:, 0] > 0]
    return kept if kept.shape[0] > 1 else x


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("function", [branch, loop, selected_rows])
def test_named_with_the_users_line(function: Callable[[Tensor], Any], strict: bool) -> None:
    """A branch, a loop bound and a size taken from values: the line in this file, no tensor contents."""
    readiness = export_ready_check(Net(function).eval(), (X,), strict=strict, stages=["export"])
    (finding,) = readiness.errors
    assert finding.code == "ER401"
    assert finding.file == __file__
    code = function.__code__
    assert code.co_firstlineno < finding.line <= code.co_firstlineno + 3
    assert "tensor(" not in str(readiness)


def test_a_branch_on_a_size_is_none() -> None:
    """Known while the graph is made."""
    assert export_ready_check(Net(lambda x: x if x.shape[0] > 2 else -x).eval(), (X,), stages=["export"]).ready
