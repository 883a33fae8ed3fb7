"""Branches on the device are found by running the module here; everything is restored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pytest_exportready.analysis.execution.detectors.device_branches import Branch, branches

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
X = torch.tensor([[1.0, -2.0], [0.5, 3.0]])


class Net(nn.Module):
    def __init__(self, do: Callable[[Any, Tensor], Any]) -> None:
        super().__init__()
        self.do = do
        self.linear = nn.Linear(2, 2)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Tensor) -> Any:
        return self.do(self, x)


def found(do: Callable[[Any, Tensor], Any], target: str = "cuda") -> list[Branch]:
    return branches(Net(do), ((X,), {}), CPU, torch.device(target))


@pytest.mark.parametrize(
    ("do", "outcome"),
    [
        (lambda m, x: x + 1 if x.is_cuda else x, "outputs"),
        (lambda m, x: x.double().float() if x.is_cuda else x, "operators"),
        (lambda m, x: torch.ops.exportready_absent.scan(x) if x.is_cuda else x, "fails"),
    ],
)
def test_the_outcome_of_the_other_branch(do: Callable[[Any, Tensor], Any], outcome: str) -> None:
    (branch,) = found(do)
    assert (branch.outcome, branch.read, Path(branch.file).name) == (outcome, "is_cuda", Path(__file__).name)


def test_each_line_that_branches_is_named() -> None:
    def do(m: Any, x: Tensor) -> Tensor:
        x = x + torch.zeros(2, device=x.device)
        x = x + 1 if x.is_cuda else x
        x = x + torch.ones(2, device=x.device)
        return x * (2 if x.device.type == "cuda" else 1)

    first = do.__code__.co_firstlineno
    assert [branch.line - first for branch in found(do)] == [2, 4]


def test_two_lines_that_differ_only_together_are_one_branch() -> None:
    def do(m: Any, x: Tensor) -> Tensor:
        first = x.is_cuda
        second = x.is_cuda
        return x + 1 if first and second else x

    assert [branch.outcome for branch in found(do)] == ["outputs"]


def test_an_autocast_region_follows_the_device() -> None:
    def do(m: Any, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, torch.bfloat16):
            return m.linear(x)

    assert found(do) == []


@pytest.mark.parametrize("target", ["mps", "xpu"])
def test_other_types_of_devices(target: str) -> None:
    assert len(found(lambda m, x: x + 1 if x.device.type == target else x, target)) == 1
    assert found(lambda m, x: x + 1 if x.is_cuda else x + torch.zeros(2, device=x.device), target) == []


def test_a_module_that_does_not_repeat_itself() -> None:
    calls: list[int] = []

    def do(m: Any, x: Tensor) -> Tensor:
        calls.append(0)
        return x + len(calls)

    assert found(do) == []


def test_devices_in_the_output_are_ignored() -> None:
    class Held:
        def __init__(self, x: Tensor) -> None:
            self.device, self.value, self.again = x.device, x * 1, self

    assert found(lambda m, x: {"held": Held(x), "device": x.device}) == []


def test_everything_is_restored() -> None:
    def do(m: Any, x: Tensor) -> Tensor:
        m.count += 1
        return x.add_(1) + torch.rand(2) if x.is_cuda else x

    model, x = Net(do).train(), X.clone()
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    real = torch.cuda.is_available, torch.autocast.__init__
    assert branches(model, ((x,), {}), CPU, CUDA)
    assert torch.equal(torch.rand(1), expected)
    assert torch.equal(x, X)
    assert (float(model.count), model.training) == (0.0, True)
    assert (torch.cuda.is_available, torch.autocast.__init__) == real
    assert not x.is_cuda


def test_what_the_module_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        found(lambda m, x: 1 / 0)
