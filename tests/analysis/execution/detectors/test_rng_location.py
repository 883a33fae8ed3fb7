from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from pytest_exportready.analysis.execution.detectors.rng_location import random_line


def inner() -> torch.Tensor:
    return torch.randn(2)


def with_loop() -> float:
    total = 0.0
    for step in range(3):
        if step == 1:
            total += random.random()
    return total


def deep() -> torch.Tensor:
    x = torch.ones(2)
    x = x + 1
    return inner() + x


def line(function: Callable[..., Any], offset: int) -> tuple[str, int]:
    return __file__, function.__code__.co_firstlineno + offset


@pytest.mark.parametrize(
    ("run", "where"),
    [
        (inner, line(inner, 1)),
        (deep, line(inner, 1)),
        (with_loop, line(with_loop, 4)),
        (lambda: np.random.uniform(), None),
        (lambda: F.dropout(torch.ones(3)), None),
        (lambda: F.gumbel_softmax(torch.ones(3)), None),
        (lambda: torch.bernoulli(torch.full((3,), 0.5)), None),
    ],
)
def test_the_line_that_draws(run: Callable[[], Any], where: tuple[str, int] | None) -> None:
    assert random_line(run) == (where or line(run, 0))


def test_nothing_drawn() -> None:
    assert random_line(lambda: torch.ones(2).sum()) == ("", 0)
    assert random_line(lambda: torch.rand(2, generator=torch.Generator())) == ("", 0)


def test_an_exception_is_raised_and_the_tracer_restored() -> None:
    before = sys.gettrace()
    with pytest.raises(ZeroDivisionError):
        random_line(lambda: 1 / 0)
    assert sys.gettrace() is before
