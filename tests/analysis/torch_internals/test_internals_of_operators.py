"""What is private to torch about operators: there in 2.13 to 2.15; what a newer torch has lost fails here."""

from __future__ import annotations

import torch

from pytest_exportready.analysis.torch_internals.operators import (
    custom_operator,
    functions_of_operator,
    is_custom_operator,
)


def test_operators_made_by_custom_op() -> None:
    @torch.library.custom_op("internals::doubled", mutates_args=())
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    alone = functions_of_operator(doubled)

    @doubled.register_fake
    def fake(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    assert is_custom_operator(doubled)
    assert not is_custom_operator(torch.ops.aten.add)
    assert custom_operator("internals::doubled") is doubled
    assert custom_operator("aten::add") is None
    assert len(alone) == 1
    assert functions_of_operator(doubled) == [*alone, fake]
    assert functions_of_operator(object()) == []
