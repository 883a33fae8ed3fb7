"""The autograd functions that a forward can come to, and what their source does against the rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pytest_exportready.analysis.source.autograd_functions import autograd_functions
from pytest_exportready.analysis.source.autograd_rules import violations


class Faulty(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Tensor, scale: float) -> Any:
        ctx.scale = scale
        ctx.w = w  # KEPT
        x[0] = 0  # WRITTEN
        x.mul_(2)  # WRITTEN
        return x.view(-1)  # VIEW

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (y,) = ctx.saved_tensors
        z = y.detach() + ctx.w.data  # DETACHED
        return torch.from_numpy(np.sign(grad.numpy())) * z, None, None  # NUMPY


class Clean(torch.autograd.Function):
    """All that is allowed: attributes that are no tensors, marked writes, setup_context, view_as, a detached grad."""

    @staticmethod
    def forward(x: Tensor, y: Tensor) -> Tensor:
        return x.view_as(x) * y

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, y = inputs
        ctx.shape, ctx.data = x.shape, 3
        ctx.save_for_backward(x, y)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, y = ctx.saved_tensors
        return grad.detach() * y * ctx.data, grad * x


class Marked(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        return x.mul_(2)


def helper(x: Tensor) -> Any:
    return Clean.apply(x, x)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.function = Faulty.apply

    def forward(self, x: Tensor) -> Any:
        return self.inner(x)

    def inner(self, x: Tensor) -> Any:
        return helper(self.function(x, x, 2.0))


def test_each_breach_at_its_line() -> None:
    lines = Path(__file__).read_text().splitlines()
    found = violations(Faulty)
    told = {lines[line - 1].split("# ")[1]: words for _, line, words in found}
    assert told.keys() == {"KEPT", "WRITTEN", "VIEW", "DETACHED", "NUMPY"}
    assert len(found) == 7  # two writes; .data and .detach() in one line
    assert all(file == __file__ for file, _, _ in found)
    assert "save" not in told["WRITTEN"]
    assert "mark_dirty" in told["WRITTEN"]


def test_what_is_allowed() -> None:
    assert violations(Clean) == []
    assert violations(Marked) == []


def test_functions_are_found_wherever_forward_mentions_them() -> None:
    """As an attribute of the module, and through a function that it calls; with the module's name."""
    assert autograd_functions(nn.Sequential(nn.Linear(2, 2), Net())) == {Clean: "1", Faulty: "1"}
    assert autograd_functions(nn.TransformerEncoderLayer(8, 2)) == {}


def test_a_class_without_source_is_passed_over() -> None:
    assert violations(type("Made", (torch.autograd.Function,), {"forward": staticmethod(lambda ctx, x: x.data)})) == []
