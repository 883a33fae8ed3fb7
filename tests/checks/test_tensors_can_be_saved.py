from __future__ import annotations

import pytest
import torch
from torch import nn

from pytest_exportready.checks._check import Subject
from pytest_exportready.checks.tensors_can_be_saved import inspect


class Plain(nn.Module):
    def __init__(self, table: torch.Tensor) -> None:
        super().__init__()
        self.table = table

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sparse.mm(self.table, x)


class NotRead(Plain):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def judge(model: nn.Module) -> list[tuple[str, str]]:
    return [(f.severity, f.where) for f in inspect(Subject(model))]


def registered(tensor: torch.Tensor) -> nn.Module:
    model = nn.Sequential(nn.Linear(2, 2))
    model[0].register_buffer("table", tensor)
    return model


def test_buffers_and_attributes_that_forward_reads() -> None:
    sparse = torch.eye(2).to_sparse()
    assert judge(registered(sparse)) == [("error", "0.table")]
    assert judge(Plain(sparse)) == [("error", "table")]
    assert judge(NotRead(sparse)) == []


@pytest.mark.parametrize(
    "tensor",
    [torch.ones(2, dtype=torch.complex64), torch.ones(2).to(torch.float8_e5m2), torch.ones(2, device="meta")],
)
def test_what_can_be_saved_is_clean(tensor: torch.Tensor) -> None:
    assert judge(registered(tensor)) == []
