"""Non-persistent buffers: what training writes is lost, what the constructor makes is not."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from pytest_exportready.checks._check import Subject
from pytest_exportready.checks.trained_buffers_saved import inspect


class Buffered(nn.Module):
    def __init__(self, persistent: bool = False) -> None:
        super().__init__()
        self.register_buffer("centre", torch.zeros(2), persistent=persistent)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.update(x)
        return x - self.centre

    def update(self, x: torch.Tensor) -> None:
        self.centre.mul_(0.9).add_(0.1 * x.mean(0))


class Constant(Buffered):
    def update(self, x: torch.Tensor) -> None:
        x + self.centre


class InEvalToo(Buffered):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.update(x)
        return x - self.centre if self.training else x + self.centre


def judge(model: nn.Module, **said: Any) -> list[tuple[str, str]]:
    found = inspect(Subject(model.eval(), (torch.ones(3, 2),), **said))
    return [(f.severity, f.where) for f in found]


def test_written_in_a_method_that_forward_calls_while_training() -> None:
    model = nn.Sequential(Buffered())
    assert judge(model) == [("error", "0.centre")]
    assert not model[0].centre.any()
    assert not model.training


def test_look_alikes_are_clean() -> None:
    assert judge(Buffered(persistent=True)) == []
    assert judge(Constant()) == []
    assert judge(InEvalToo()) == []  # a stage reports that the output depends on earlier calls


def test_a_checkpoint_that_has_it_all_the_same_is_fine() -> None:
    assert judge(Buffered(), checkpoint={"centre": torch.zeros(2)}) == []


def test_training_that_does_not_run_says_nothing() -> None:
    assert judge(nn.Sequential(nn.Linear(5, 2), Buffered())) == []
