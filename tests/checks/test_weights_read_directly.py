"""Views of weights kept in attributes: while they share memory, and after they no longer do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from pytest_exportready.checks._check import Subject
from pytest_exportready.checks.weights_read_directly import inspect


class Kept(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(2, 3))
        self.b = nn.Parameter(torch.ones(3))
        self.w_t = self.take()

    def take(self) -> torch.Tensor:
        return self.w.data.t()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x @ self.w + self.b) @ self.w_t


class InList(Kept):
    def __init__(self) -> None:
        super().__init__()
        self.w_t = [self.w.detach().t()]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.w @ self.w_t[0]


class Direct(Kept):
    def __init__(self) -> None:
        super().__init__()
        self.w_t = self.w.detach().t()


class NotRead(Kept):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.w


class Recomputed(Kept):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.w_t = self.w.t()
        return x @ self.w @ self.w_t


class Snapshot(Kept):
    def __init__(self) -> None:
        super().__init__()
        self.w_t = self.w.detach().clone().t()


class Another(Kept):
    def __init__(self) -> None:
        super().__init__()
        self.w_t = torch.ones(self.w.shape[1], self.w.shape[0])


class SameObject(Kept):
    def __init__(self) -> None:
        super().__init__()
        self.w_t = self.w


def judge(model: nn.Module) -> list[tuple[str, str]]:
    return [(f.severity, f.where) for f in inspect(Subject(model.eval()))]


def test_a_view_that_shares_memory() -> None:
    assert judge(nn.Sequential(Kept())) == [("error", "0.w_t")]
    assert judge(InList()) == [("error", "w_t[0]")]


def test_a_view_left_behind_by_a_cast() -> None:
    (finding,) = inspect(Subject(Direct().double().float()))
    assert (finding.severity, finding.where) == ("error", "w_t")
    assert "old values" in finding.message
    assert "`self.w`" in finding.fix


@pytest.mark.parametrize(
    "build",
    [
        NotRead,
        Recomputed,
        lambda: Snapshot().double().float(),
        lambda: Another().double().float(),
        SameObject,
        lambda: nn.LSTM(2, 3).double(),
        lambda: nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)),
        lambda: nn.utils.spectral_norm(nn.Linear(2, 2)),
    ],
)
def test_look_alikes_are_clean(build: Callable[[], nn.Module]) -> None:
    assert judge(build()) == []
