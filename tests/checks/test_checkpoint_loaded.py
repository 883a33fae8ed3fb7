"""Check checkpoint_loaded: differences in names, shapes and values, and what is not one."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pytest_exportready.checks._check import Subject
from pytest_exportready.checks.checkpoint_loaded import inspect


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.norm = nn.BatchNorm1d(3)
        self.head = nn.Linear(3, 5, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("table", torch.arange(3.0), persistent=False)


def saved(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def where(model: nn.Module, checkpoint: Any) -> list[str]:
    return [finding.where for finding in inspect(Subject(model, checkpoint=checkpoint))]


def test_what_is_not_a_difference() -> None:
    """One name of a tied weight, no buffers, entries of others, another precision, the live state dict itself."""
    model = Tied()
    state = saved(model)
    assert where(model, None) == where(model, model.state_dict()) == []
    assert where(model, OrderedDict(state, optimizer={"lr": 0.1}, epoch=3, old=torch.ones(2))) == []
    assert where(model, {name: value for name, value in state.items() if name != "head.weight"}) == []
    assert where(model, {name: value for name, value in state.items() if "running" not in name}) == []
    assert where(model, {name: value.half() for name, value in state.items()}) == []
    half = Tied()
    full = saved(half)
    assert where(half.half(), full) == []
    assert where(nn.DataParallel(model), state) == []


@pytest.mark.parametrize(
    ("name", "value", "at"),
    [
        ("norm.weight", None, "norm.weight"),
        ("norm.weight", torch.zeros(3), "norm.weight"),
        ("norm.weight", torch.ones(4), "norm.weight"),
        ("norm.running_mean", torch.ones(3), "norm.running_mean"),
        ("table", torch.ones(3), "table"),
    ],
)
def test_missing_or_other(name: str, value: Tensor | None, at: str) -> None:
    model = Tied()
    state: dict[str, Any] = {**saved(model), name: value}
    assert where(model, {key: given for key, given in state.items() if given is not None}) == [at]


def test_nothing_in_it() -> None:
    assert where(nn.Linear(2, 2), {}) == ["weight"]


def test_values_without_data_do_not_break_it() -> None:
    model = nn.Linear(2, 2, device="meta")
    assert where(model, {"weight": torch.ones(2, 2)}) == []
