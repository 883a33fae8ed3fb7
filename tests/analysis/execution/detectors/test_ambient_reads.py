"""What forward asks besides its inputs is told with its line; what torch asks for itself is not."""

from __future__ import annotations

import datetime
import os
import random
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pytest_exportready import export_ready_check
from pytest_exportready.analysis.execution.detectors.ambient_reads import outside_reads

X = torch.ones(2, 4)


class Asks(nn.Module):
    def __init__(self, asked: Callable[[], Any]) -> None:
        super().__init__()
        self.linear, self.asked = nn.Linear(4, 4), asked

    def forward(self, x: Tensor) -> Any:
        factor = self.asked()
        return self.linear(x) * float(factor is not None)


def first_line(function: Callable[..., Any]) -> int:
    return function.__code__.co_firstlineno


ASKED: dict[str, tuple[Callable[[], Any], str]] = {
    "time": (lambda: time.time(), "the clock"),
    "perf_counter": (lambda: time.perf_counter(), "the clock"),
    "datetime": (lambda: datetime.datetime.now(), "the clock"),
    "environ": (lambda: os.environ.get("NOT_THERE"), "the environment"),
    "getenv": (lambda: os.getenv("NOT_THERE"), "the environment"),
    "random": (lambda: random.random(), "random numbers of Python's or numpy's"),
    "randint": (lambda: random.randint(0, 3), "random numbers of Python's or numpy's"),
    "grad mode": (lambda: torch.is_grad_enabled(), "the grad mode"),
    "seed": (lambda: torch.manual_seed(0), "or sets a random state"),
    "urandom": (lambda: os.urandom(1), "random bytes"),
}


@pytest.mark.parametrize("name", ASKED)
def test_told_with_its_line(name: str) -> None:
    asked, words = ASKED[name]
    model = Asks(asked)
    (read,) = outside_reads(lambda: model(X))
    assert (read.words, read.file, read.line) == (words, __file__, first_line(asked))


def test_torch_asks_what_it_likes() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.MultiheadAttention(4, 2)).eval()
    assert outside_reads(lambda: model[:2](X)) == outside_reads(lambda: model[2](X, X, X)) == []


class Moves(nn.Module):
    """Of the clock, and of a list that is global."""

    def __init__(self, by_clock: bool) -> None:
        super().__init__()
        self.by_clock = by_clock

    def forward(self, x: Tensor) -> Tensor:
        now = time.perf_counter_ns() % 1000 if self.by_clock else len(CALLS)
        CALLS.append(1)
        return x * now


CALLS: list[int] = []


def test_a_clock_is_no_dropout() -> None:
    readiness = export_ready_check(Moves(by_clock=True).eval(), (X,))
    (finding,) = (finding for finding in readiness.errors if finding.code == "ER111")
    assert "forward asks the clock" in finding.message
    assert (finding.file, finding.line) == (__file__, first_line(Moves.forward) + 1)


def test_state_that_is_global_is_no_dropout() -> None:
    readiness = export_ready_check(Moves(by_clock=False).eval(), (X,))
    (finding,) = (finding for finding in readiness.errors if finding.code == "ER111")
    assert "although the random states are as they were" in finding.message
    assert "dropout" not in finding.fix


class Seeds(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        torch.manual_seed(7)
        return x + torch.randn(x.shape)


def test_a_seed_that_no_program_keeps() -> None:
    """Told after an export as well: torch wraps its functions differently from then on."""
    readiness = export_ready_check(Seeds().eval(), (X,))
    (finding,) = (finding for finding in readiness.errors if finding.code == "ER501")
    assert "sets a random state" in finding.message
    assert (finding.file, finding.line) == (__file__, first_line(Seeds.forward) + 1)


class ByGradMode(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x * 2
        if torch.is_grad_enabled():
            y = y + 1
        return y


def test_a_disagreement_names_it() -> None:
    readiness = export_ready_check(ByGradMode().eval(), (X,))
    (finding,) = (finding for finding in readiness.errors if finding.code == "ER501")
    assert "forward asks the grad mode" in finding.message
    assert (finding.file, finding.line) == (__file__, first_line(ByGradMode.forward) + 2)
