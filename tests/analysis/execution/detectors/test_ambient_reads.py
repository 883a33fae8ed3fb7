"""Reads of the clock, the environment and the like are found with their line; those by torch are not."""

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
from pytest_exportready.analysis.execution.detectors.ambient_reads import ambient_reads

X = torch.ones(2, 4)


class Reads(nn.Module):
    def __init__(self, read: Callable[[], Any]) -> None:
        super().__init__()
        self.linear, self.read = nn.Linear(4, 4), read

    def forward(self, x: Tensor) -> Any:
        factor = self.read()
        return self.linear(x) * float(factor is not None)


def first_line(function: Callable[..., Any]) -> int:
    return function.__code__.co_firstlineno


READS: dict[str, tuple[Callable[[], Any], str]] = {
    "time": (lambda: time.time(), "reads the clock"),
    "perf_counter": (lambda: time.perf_counter(), "reads the clock"),
    "datetime": (lambda: datetime.datetime.now(), "reads the clock"),
    "environ": (lambda: os.environ.get("NOT_THERE"), "reads the environment"),
    "getenv": (lambda: os.getenv("NOT_THERE"), "reads the environment"),
    "random": (lambda: random.random(), "draws random numbers of Python or NumPy"),
    "randint": (lambda: random.randint(0, 3), "draws random numbers of Python or NumPy"),
    "grad mode": (lambda: torch.is_grad_enabled(), "reads the grad mode"),
    "seed": (lambda: torch.manual_seed(0), "sets or reads the random seed"),
    "urandom": (lambda: os.urandom(1), "draws random bytes"),
}


@pytest.mark.parametrize("name", READS)
def test_the_line_is_named(name: str) -> None:
    reads, words = READS[name]
    model = Reads(reads)
    (read,) = ambient_reads(lambda: model(X))
    assert (read.words, read.file, read.line) == (words, __file__, first_line(reads))


def test_reads_by_torch() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.MultiheadAttention(4, 2)).eval()
    assert ambient_reads(lambda: model[:2](X)) == ambient_reads(lambda: model[2](X, X, X)) == []


class Moves(nn.Module):
    """Reads the clock, or a global list."""

    def __init__(self, by_clock: bool) -> None:
        super().__init__()
        self.by_clock = by_clock

    def forward(self, x: Tensor) -> Tensor:
        now = time.perf_counter_ns() % 1000 if self.by_clock else len(CALLS)
        CALLS.append(1)
        return x * now


CALLS: list[int] = []


def test_a_clock_is_not_dropout() -> None:
    readiness = export_ready_check(Moves(by_clock=True).eval(), (X,))
    (finding,) = (finding for finding in readiness.errors if finding.code == "ER111")
    assert "`forward` reads the clock" in finding.message
    assert (finding.file, finding.line) == (__file__, first_line(Moves.forward) + 1)


def test_global_state_is_not_dropout() -> None:
    readiness = export_ready_check(Moves(by_clock=False).eval(), (X,))
    (finding,) = (finding for finding in readiness.errors if finding.code == "ER111")
    assert "same inputs and random states" in finding.message
    assert "dropout" not in finding.fix


class Seeds(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        torch.manual_seed(7)
        return x + torch.randn(x.shape)


def test_a_seed_that_no_program_keeps() -> None:
    """Also found after an export, when torch has wrapped its functions."""
    readiness = export_ready_check(Seeds().eval(), (X,))
    (finding,) = (finding for finding in readiness.errors if finding.code == "ER501")
    assert "`forward` sets or reads the random seed" in finding.message
    assert (finding.file, finding.line) == (__file__, first_line(Seeds.forward) + 1)


class ByGradMode(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x * 2
        if torch.is_grad_enabled():
            y = y + 1
        return y


def test_a_difference_names_it() -> None:
    readiness = export_ready_check(ByGradMode().eval(), (X,))
    (finding,) = (finding for finding in readiness.errors if finding.code == "ER501")
    assert "`forward` reads the grad mode" in finding.message
    assert (finding.file, finding.line) == (__file__, first_line(ByGradMode.forward) + 2)
