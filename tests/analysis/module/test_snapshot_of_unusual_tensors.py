"""Snapshots of sparse, quantized, fake and subclassed tensors."""

from __future__ import annotations

import time

import pytest
import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

from pytest_exportready.analysis.module.snapshot import equal_bits, preserved

UNUSUAL = {
    "sparse": lambda: torch.eye(3).to_sparse(),
    "sparse csr": lambda: torch.eye(3).to_sparse_csr(),
    "complex": lambda: torch.ones(3, dtype=torch.complex64),
    "float8": lambda: torch.ones(3).to(torch.float8_e4m3fn),
    "bfloat16": lambda: torch.ones(3, dtype=torch.bfloat16),
    "bool": lambda: torch.ones(3, dtype=torch.bool),
    "nan": lambda: torch.tensor([float("nan"), 1.0]),
    "empty": lambda: torch.empty(0, 3),
    "expanded": lambda: torch.ones(1).expand(4),
    "0-dim": lambda: torch.tensor(3.0),
}


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("kind", UNUSUAL)
def test_unusual_tensors(kind: str) -> None:
    """Data of every layout and dtype comes back, and an untouched tensor counts as unchanged."""
    net = nn.Module()
    net.register_buffer("table", UNUSUAL[kind]())
    start = net.table.clone()
    with preserved(net) as state:
        assert state.changes() == []
        data = net.table.data
        (data[:1] if kind == "expanded" else data.values() if "csr" in kind else data).zero_()
    assert equal_bits(net.table, start)


def test_tensors_without_data() -> None:
    """Meta and lazy parameters are passed over, or become lazy again."""
    net = nn.Sequential(nn.Linear(2, 2, device="meta"), nn.LazyLinear(3))
    with preserved(net):
        net[1](torch.randn(1, 2))
        assert type(net[1]) is nn.Linear
    assert type(net[1]) is nn.LazyLinear
    assert type(net[1].weight) is nn.UninitializedParameter
    assert net[0].weight.is_meta


def test_subclasses_keep_class_and_data() -> None:
    """A subclass of Parameter without data of its own kind is an ordinary tensor; a wrapper's inner data
    comes back."""

    class Special(nn.Parameter):
        pass

    net = nn.Module()
    net.weight = Special(torch.ones(2))
    with preserved(net):
        net.weight.data.zero_()
    assert type(net.weight) is Special
    assert net.weight.tolist() == [1.0, 1.0]


def test_wrapper_classes() -> None:
    """What a class such as DTensor wraps comes back, and so does its gradient flag."""
    net = nn.Module()
    net.weight = nn.Parameter(TwoTensor(torch.ones(2), torch.ones(2)))
    with preserved(net) as state, torch.no_grad():
        assert state.changes() == []
        net.weight.mul_(3)
        net.weight.requires_grad_(False)
        assert {change.where for change in state.changes()} == {"weight.a", "weight.b"}
    assert net.weight.requires_grad
    assert (net.weight.a == 1).all()
    assert (net.weight.b == 1).all()


def test_cost() -> None:
    """2,000 modules with 10,000 tensors: a fraction of a second, in processor time."""
    net = nn.ModuleList(nn.BatchNorm1d(2) for _ in range(2000))
    started = time.process_time()
    with preserved(net):
        net.eval()
    assert time.process_time() - started < 2
