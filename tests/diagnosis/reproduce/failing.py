"""Modules whose export fails, each in a way of its own, written as users write them."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SCALE = 2.0
LIMITS = {"low": -1.0, "high": float("inf")}


class Kind(enum.Enum):
    MEAN = "mean"
    SUM = "sum"


@dataclass
class Config:
    width: int = 4
    kind: Kind = Kind.MEAN


def squashed(x: Tensor, power: int = 2) -> Tensor:
    return F.relu(x) ** power * SCALE


class Base(nn.Module):
    def gate(self, x: Tensor) -> bool:
        return bool(x.sum() > LIMITS["low"])


class Branching(Base):
    """A branch on values, in a method that is inherited."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.cap = math.inf

    def forward(self, x: Tensor) -> Tensor:
        y = self.inner(x)
        if self.gate(y):
            return y
        return -y


class Looping(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for _ in range(int(x.sum().item())):
            x = x + 1
        return x


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return torch.from_numpy(x.detach().numpy().round())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


class ThroughNumpy(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return Straight.apply(x)


class Configured(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.activation = partial(squashed, power=3)
        self.layers = nn.ModuleList([Branching(config.width), nn.BatchNorm1d(config.width)])
        self.layers.append(self.layers[0])
        self.register_buffer("steps", torch.arange(config.width), persistent=False)
        self.extra = [nn.Linear(config.width, config.width)]

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = self.activation(layer(x))
        if self.config.kind is Kind.SUM:
            return x.sum()
        return self.extra[0](x) + self.steps


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embed.weight
        self.branching = Branching(4)

    def forward(self, tokens: Tensor, scale: float = 1.0) -> Tensor:
        return self.head(self.branching(self.embed(tokens))) * scale


def made(width: int) -> nn.Module:
    offset = 3

    class Local(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + offset if bool(x.mean() > 0) else x

    return nn.Sequential(nn.Linear(width, width), Local())


X = torch.ones(3, 4)
FAILING: dict[str, tuple[nn.Module, tuple[Any, ...], dict[str, Any]]] = {
    "branch in an inherited method": (Branching(4), (X,), {}),
    "loop over a value": (Looping(), (X,), {}),
    "custom autograd function through numpy": (ThroughNumpy(), (X,), {}),
    "dataclass, enum, partial, hidden and shared modules": (Configured(Config()), (X,), {}),
    "tied weights, token inputs, keyword": (Tied(), (torch.tensor([[1, 2], [3, 6]]),), {"scale": 2.0}),
    "a class in a function": (made(4), (X,), {}),
    "an output of no known class": (nn.Sequential(nn.Linear(4, 4), Branching(4)), (X,), {}),
}
