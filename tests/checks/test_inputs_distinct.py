"""A tensor passed twice: found wherever it stands, because torch merges the two."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from pytest_exportready import assert_inputs_distinct, export_ready_check


class Sum(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return 2 * a + b


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("x", [torch.ones(3), torch.ones(3, dtype=torch.long)], ids=["float", "int"])
def test_torch_merges_them(x: Tensor, strict: bool) -> None:
    """What the check stands on: 2.13 to 2.15."""
    program = torch.export.export(Sum(), (x, x), strict=strict).module()
    assert program(x, torch.zeros_like(x)).tolist() == [0, 0, 0]  # and not 2: it reads the last for both


def test_it_is_an_error_that_names_both_places() -> None:
    x = torch.randn(3)
    (finding,) = export_ready_check(Sum().eval(), (x, x)).errors
    assert finding.name == "inputs_distinct"
    assert finding.where == "args[1]"
    assert "args[0] and args[1]" in finding.message
    assert export_ready_check(Sum().eval(), (x, x.clone())).ready


def test_assertion() -> None:
    x = torch.ones(2)
    assert_inputs_distinct(Sum(), example_inputs=(x,), example_kwargs={"b": x.clone()})
    with pytest.raises(AssertionError, match=r"kwargs\['b'\]"):
        assert_inputs_distinct(Sum(), example_inputs=(x,), example_kwargs={"b": x})
