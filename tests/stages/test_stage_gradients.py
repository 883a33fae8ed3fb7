"""Gradients of a program that will be trained: a custom backward that the export drops is found."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pytest_exportready import ExportCase
from pytest_exportready.case.options import CaseOptions
from pytest_exportready.case.readiness import Readiness
from pytest_exportready.judge.judge import judge


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return -0.5 * grad


class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.clamp(-0.5, 0.5)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad  # also beyond the limits


class Square(torch.autograd.Function):
    """Its backward is that of autograd."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * grad


class Net(nn.Module):
    def __init__(self, function: type[torch.autograd.Function]) -> None:
        super().__init__()
        self.before, self.function, self.after = nn.Linear(6, 8), function, nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.after(self.function.apply(self.before(x) * 2))
        return y


def judged(model: nn.Module, *args: Any, **case: Any) -> Readiness:
    torch.manual_seed(0)
    options = CaseOptions(stages=("gradients",))
    return judge(ExportCase(model.eval(), args or (torch.randn(4, 6),), **case), options, name="case")


@pytest.mark.parametrize("function", [StraightThrough, Reversed, Clipped])
def test_a_dropped_backward_is_reported_at_its_function(function: Any) -> None:
    readiness = judged(Net(function), trainable=True)
    (finding,) = readiness.errors
    assert finding.name == "gradients_agree"
    assert "before.weight" in finding.where
    assert function.__name__ in finding.message
    assert finding.file == __file__
    assert finding.line > 0
    assert "custom_op" in finding.fix


@pytest.mark.parametrize("function", [StraightThrough, Reversed, Clipped])
def test_a_program_that_will_not_be_trained(function: Any) -> None:
    readiness = judged(Net(function))
    assert readiness.ready
    assert not [stage for stage in readiness.stages if stage.name == "gradients"]


class Wide(nn.Module):
    """Embedding, tied weights, a frozen parameter, norms and several outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm = nn.Embedding(11, 6), nn.LayerNorm(6)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embed.weight
        self.norm.bias.requires_grad_(False)

    def forward(self, ids: Tensor, scale: Tensor) -> dict[str, Tensor]:
        hidden = self.norm(self.embed(ids) * scale)
        return {"logits": self.head(hidden), "ids": ids, "hidden": hidden}


@pytest.mark.parametrize(
    ("model", "args"),
    [
        (Net(Square), ()),
        (Wide(), (torch.randint(11, (3, 5)), torch.tensor(0.7))),
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()), (torch.randn(2, 3, 8, 8),)),
        (nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 2)).bfloat16(), (torch.randn(4, 6).bfloat16(),)),
        (nn.GRU(6, 5), (torch.randn(7, 2, 6),)),
    ],
    ids=["right backward", "wide", "conv", "bfloat16", "gru"],
)
def test_gradients_that_agree(model: nn.Module, args: tuple[Any, ...]) -> None:
    readiness = judged(model, *args, trainable=True)
    assert readiness.ready, str(readiness)
    assert next(s for s in readiness.stages if s.name == "gradients").outcome == "passed"


def test_the_loss_of_the_case_is_used() -> None:
    """The gradients of an output that the wrong backward does not reach agree."""

    class Two(Net):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
            return self.after(self.before(x)), self.function.apply(self.before(x))

    assert not judged(Two(Reversed), trainable=True).ready
    assert judged(Two(Reversed), trainable=True, loss=lambda out: out[0].square().mean()).ready


def test_a_module_without_gradients_is_skipped() -> None:
    class Rank(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).argsort()

    readiness = judged(Rank(6, 3), trainable=True)
    stage = next(s for s in readiness.stages if s.name == "gradients")
    assert stage.outcome == "skipped"
    assert "no floating-point output" in stage.reason


def test_the_module_is_restored() -> None:
    model = Net(Reversed).eval()
    model.before.weight.grad = torch.ones(8, 6)
    judged(model, trainable=True)
    assert torch.equal(model.before.weight.grad, torch.ones(8, 6))
    assert model.after.weight.grad is None
