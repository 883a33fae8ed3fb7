"""Diagnosis operator_without_fake: the kernel to write has the arguments and results of the operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import custom_operators as ops
import pytest
import torch
from torch import Tensor, nn


class Net(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        values, _ = ops.without_fake(x, 2)
        return values


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("strict", [False, True])
def test_the_kernel_to_write(strict: bool, diagnosed: Callable[..., Any]) -> None:
    finding = diagnosed(Net(), torch.randn(3, 4), strict=strict)
    assert (finding.code, finding.where) == ("ER417", "exportready_ops::without_fake")
    assert "def _(x, k, *, largest): return (torch.empty_like(x), torch.empty_like(x))" in finding.fix
