"""Caches filled in forward: stale ones are found by emptying them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from pytest_exportready.case.finding import Finding
from pytest_exportready.checks._check import Subject
from pytest_exportready.checks.caches_fresh import inspect


class Weighted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))

    def train_further(self) -> Weighted:
        self(torch.ones(1, 2))
        with torch.no_grad():
            self.weight.mul_(3)
        return self


class InAttribute(Weighted):
    table: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.table is None:
            self.table = self.weight.detach().exp()
        return x * self.table


class InDict(Weighted):
    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[int, torch.Tensor] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] not in self.tables:
            self.tables[x.shape[0]] = self.weight.detach().exp()
        return x * self.tables[x.shape[0]]


class OfShape(Weighted):
    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[int, torch.Tensor] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight * self.tables.setdefault(x.shape[1], torch.arange(2.0))


class Chosen(Weighted):
    """The user sets it; forward only has a default."""

    prompt: torch.Tensor | None = None

    def choose(self, prompt: torch.Tensor) -> Chosen:
        self.prompt = prompt
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.prompt is None:
            self.prompt = torch.zeros(2)
        return x * self.weight + self.prompt


def judge(model: nn.Module, **said: Any) -> list[Finding]:
    return list(inspect(Subject(model.eval(), (torch.ones(1, 2),), **said)))


@pytest.mark.parametrize(("kind", "where"), [(InAttribute, "table"), (InDict, "tables")])
def test_made_of_older_weights(kind: type[Weighted], where: str) -> None:
    model = kind().train_further()
    kept = vars(model)[where]
    (finding,) = judge(nn.Sequential(model))
    assert (finding.severity, finding.where) == ("error", f"0.{where}")
    assert vars(model)[where] is kept


@pytest.mark.parametrize(
    "model",
    [InAttribute(), InDict(), OfShape().train_further(), Chosen().choose(torch.ones(2))],
    ids=["cold", "cold dict", "of the shape only", "the user's choice"],
)
def test_look_alikes_are_clean(model: nn.Module) -> None:
    assert judge(model) == []


def test_warm_and_still_right_is_clean() -> None:
    model = InAttribute()
    model(torch.ones(1, 2))
    assert judge(model) == []


def test_declared_state_is_not_reported() -> None:
    assert judge(InAttribute().train_further(), allow_mutation=True) == []
