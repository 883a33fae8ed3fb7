"""The line of a value that is a constant in the program, and of a branch that is taken only while tracing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pytest_exportready import export_ready_check


class Net(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.linear, self.function = nn.Linear(3, 3), function

    def forward(self, x: Tensor) -> Any:
        return self.function(self.linear(x), x)


@torch.compiler.assume_constant_result
def mean_of(x: Tensor) -> Tensor:
    return x.mean().detach().clone()


def assumed(hidden: Tensor, x: Tensor) -> Tensor:
    return hidden - mean_of(x)  # HERE


def address_of(x: Tensor) -> Tensor:
    x.data_ptr()  # HERE
    return x.sum()


def swallowed(hidden: Tensor, x: Tensor) -> Tensor:
    try:
        total = address_of(x)
    except Exception:
        total = torch.zeros(())
    return hidden - total


def branches_on_tracing(hidden: Tensor, x: Tensor) -> Tensor:
    if torch.compiler.is_exporting():  # HERE
        return hidden
    return hidden * 2


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("function", "strict"), [(assumed, True), (swallowed, False), (branches_on_tracing, False)])
def test_the_line_is_named(function: Any, strict: bool) -> None:
    """A result that is declared constant, an exception that is caught, a branch on tracing."""
    torch.manual_seed(0)
    (finding,) = export_ready_check(Net(function).eval(), (torch.randn(4, 3),), strict=strict, stages=["parity"]).errors
    assert finding.code == "ER501"
    with open(__file__) as file:
        lines = file.read().splitlines()
    assert finding.file == __file__
    assert lines[finding.line - 1].endswith("# HERE")
    assert "custom_op" in finding.fix


def test_a_difference_without_a_line() -> None:
    """Different numbers in the same branch: the fast path of nn.TransformerEncoder."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, batch_first=True)
    model = nn.TransformerEncoder(layer, 1).eval()
    mask = torch.tensor([[False, False, True], [False, True, True]])
    knowledge = {"example_kwargs": {"src_key_padding_mask": mask}, "stages": ["parity"]}
    (finding,) = export_ready_check(model, (torch.randn(2, 3, 8),), **knowledge).errors
    assert (finding.code, finding.line) == ("ER501", 0)
