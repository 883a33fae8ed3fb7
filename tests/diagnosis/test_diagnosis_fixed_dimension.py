"""Diagnosis fixed_dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from pytest_exportready import export_ready_check
from pytest_exportready.case.readiness import Readiness


class Net(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, y: Tensor) -> Any:
        return self.function(x, y)


def check(function: Callable[..., Any], rows: int = 4, **options: Any) -> Readiness:
    inputs = torch.randn(rows, 3), torch.randn(rows, 3)
    return export_ready_check(Net(function).eval(), inputs, stages=["export"], **options)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("function", "options", "where"),
    [
        (lambda x, y: x.reshape(4, 3) + y, {"dynamic_batch": True}, "x.shape[0]"),
        (lambda x, y: x + y, {"dynamic_shapes": ({0: Dim("a")}, {0: Dim("b")})}, ""),
        (lambda x, y: x * 2 + y[:4].sum(), {"dynamic_shapes": ({}, {1: Dim("d", min=2, max=64)})}, None),
    ],
)
def test_the_dimension_is_named(function: Any, options: dict[str, Any], where: str | None, strict: bool) -> None:
    """A size in the source, two sizes that the module ties; nothing for a dimension that is dynamic."""
    readiness = check(function, strict=strict, **options)
    if where is None:
        assert readiness.ready, readiness
        return
    (finding,) = readiness.errors
    assert finding.code == "ER403"
    assert finding.where.startswith(where or ("x.shape", "y.shape"))


def test_an_example_below_two() -> None:
    """The example is at fault, and the fix says so."""
    (finding,) = check(lambda x, y: x + y, rows=1, dynamic_batch=True).errors
    assert (finding.code, finding.where) == ("ER403", "x.shape[0]")
    assert "size 2 or more" in finding.fix
