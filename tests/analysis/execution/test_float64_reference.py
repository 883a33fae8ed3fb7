"""The float64 reference accepts outputs as close as those of the module, and no wrong ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pytest_exportready.analysis.execution.float64_reference import no_further_from_float64


class Net(nn.Module):
    def __init__(self, do: Callable[[Any, Tensor], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.do = do
        self.linear = nn.Linear(64, 64)

    def forward(self, x: Tensor) -> Any:
        return self.do(self, x)


X = torch.randn(8, 64, generator=torch.Generator().manual_seed(2))


def judged(do: Callable[[Any, Tensor], Any], change: Callable[[Any], Any]) -> bool:
    model = Net(do).eval()
    with torch.no_grad():
        expected = model(X)
        return no_further_from_float64(model, [((X,), {})], expected, change(expected))


def plain(m: Any, x: Tensor) -> Tensor:
    return m.linear(x)


def infinite(m: Any, x: Tensor) -> Tensor:
    return m.linear(x).masked_fill(x > 1, float("inf")).masked_fill(x < -1, float("nan"))


@pytest.mark.parametrize(
    ("do", "change"),
    [
        (plain, lambda y: y.clone()),
        (plain, lambda y: torch.nextafter(y, y + 1)),
        (lambda m, x: x * 2, lambda y: torch.nextafter(y, y + 1)),  # the output of the module is exact
        (infinite, lambda y: y.clone()),
        (lambda m, x: {"y": m.linear(x), "n": x.argmax(-1), "s": "text"}, lambda y: {**y, "y": y["y"].clone()}),
        (lambda m, x: torch.complex(m.linear(x), x), lambda y: y.clone()),
    ],
)
def test_as_close(do: Callable[[Any, Tensor], Any], change: Callable[[Any], Any]) -> None:
    assert judged(do, change)


@pytest.mark.parametrize(
    ("do", "change"),
    [
        (plain, lambda y: y * (1 + 1e-5)),
        (plain, lambda y: y + 1e-5 * torch.ones(8, 1)),
        (plain, torch.zeros_like),
        (plain, lambda y: y.bfloat16().float()),
        (plain, lambda y: y.double()),
        (plain, lambda y: y[:4]),
        (plain, lambda y: [y]),
        (plain, lambda y: y.masked_fill(y == y.max(), float("nan"))),
        (plain, lambda y: y.masked_fill(y == y.max(), float("inf"))),
        (infinite, lambda y: y.nan_to_num(0.0, float("inf"))),
        (infinite, lambda y: y.nan_to_num(float("nan"), 0.0)),
        (lambda m, x: {"y": m.linear(x), "n": x.argmax(-1)}, lambda y: {**y, "n": y["n"] + 1}),
    ],
)
def test_wrong(do: Callable[[Any, Tensor], Any], change: Callable[[Any], Any]) -> None:
    assert not judged(do, change)


def test_a_module_that_does_not_run_in_float64() -> None:
    assert not judged(lambda m, x: m.linear(x.float()), lambda y: y.clone())


def test_the_module_keeps_its_precision() -> None:
    model = Net(plain)
    no_further_from_float64(model, [((X,), {})], X, X)
    assert (model.linear.weight.dtype, model.training) == (torch.float32, True)
