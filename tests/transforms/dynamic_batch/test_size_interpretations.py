"""A view must keep rows together; sizes are interpreted as multiples of the batch only."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from pytest_exportready.transforms.dynamic_batch.size_interpretations import interpretations, keeps_rows

P = 7  # stands for the batch


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ((P, 12), (P, 4, 3), True),
        ((P, 12), (4, P, 3), False),
        ((P, 12), (4, 3 * P), False),
        ((5, P, 4), (5 * P, 4), True),
        ((5 * P, 4), (5, P, 4), True),
        ((P, 8, 4), (8 * P, 4), True),
        ((8 * P, 4), (P, 8, 4), True),
        ((1, P, 4), (P, 4), True),
        ((4, 4), (16,), True),
        ((P, P), (P * P,), False),
    ],
)
def test_views(before: tuple[int, ...], after: tuple[int, ...], kept: bool) -> None:
    """The elements of a row stay together, whichever way the batch is merged and split again."""
    assert keeps_rows(before, after, P) is kept


class Sizes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.view(4, 3, 8) + torch.zeros(4, 1, 8)


def test_which_sizes() -> None:
    """None, those that equal the batch, those that are multiples; told by the source, its size comes first."""
    nodes = {node.name: node for node in torch.export.export(Sizes(), (torch.randn(4, 24),)).graph.nodes}
    found = [[(one.place, one.factor) for one in sizes] for sizes in interpretations(nodes["view"], 4, False)]
    assert found == [[], [(0, 1)], [(2, 2)]]
    made = [[(one.place, one.factor) for one in sizes] for sizes in interpretations(nodes["zeros"], 4, True)]
    assert made == [[(0, 1)], [(2, 2)], []]
