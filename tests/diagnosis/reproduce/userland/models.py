"""Modules whose export fails, written as users write them: one habit each."""

from __future__ import annotations

import abc
import collections
import functools
import logging
import re
import threading
import types
import weakref
from collections.abc import Callable
from os import environ
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import userland.gates
import userland.inner.doubling

from . import gates as g
from .layers import Block
from .settings import Flags, Settings, Slotted

logger = logging.getLogger(__name__)
T = TypeVar("T")
MASK = torch.zeros(4)
SEEN: list[int] = []
REGISTRY: dict[str, type[nn.Module]] = {}
ACTIVATIONS: dict[str, Callable[..., Any]] = {"relu": F.relu, "square": lambda x: x * x, "half": lambda x: x / 2}
Point = collections.namedtuple("Point", "x y")


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        logger.debug("calling %s", function.__name__)
        return function(*args, **kwargs)

    return wrapper


def registered(name: str) -> Callable[[type[nn.Module]], type[nn.Module]]:
    def add(kind: type[nn.Module]) -> type[nn.Module]:
        REGISTRY[name] = kind
        return kind

    return add


class Decorated(Block):
    @logged
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)


class Configured(Block):
    def __init__(self) -> None:
        super().__init__()
        self.settings = Settings()
        self.slotted = Slotted(0.5)

    def forward(self, x: Tensor) -> Tensor:
        if self.settings.flags & Flags.A:
            x = x * self.settings.double * self.slotted.limit
        return super().forward(x)


class Typed(Block, Generic[T]):
    def forward(self, x: T) -> T:
        return super().forward(x)  # type: ignore[arg-type, return-value]


class OfModules(Block):
    """Reads attributes of the user's modules by their names."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * g.SCALE + userland.inner.doubling.twice(x) * userland.gates.SCALE


class Lambdas(Block):
    def __init__(self) -> None:
        super().__init__()
        self.activation = lambda x: x * 2

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.activation(ACTIVATIONS["square"](x)))


@torch.library.custom_op("userland::without_fake", mutates_args=())
def without_fake(x: Tensor) -> Tensor:
    return x.clone()


class Operator(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return torch.ops.userland.without_fake(x)


class Results(NamedTuple):
    one: Tensor
    other: Tensor


class Plain(Block):
    """Values of Python's and numpy's own."""

    def __init__(self) -> None:
        super().__init__()
        self.point = Point(1, 2)
        self.space = types.SimpleNamespace(width=4, inner=[1, 2])
        self.queue = collections.deque([1, 2], maxlen=4)
        self.steps = range(3)
        self.factor = np.float32(2.0)
        self.pattern = re.compile("a+")

    def forward(self, x: Tensor) -> Any:
        for _ in self.steps:
            x = x * self.point.x * self.space.inner[0] * self.queue[0] * float(self.factor)
        return Results(super().forward(x), x) if self.pattern.match("aa") else x


class Unread(Block):
    """Holds what forward never reads, and nobody should be handed."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self.checkpoint = Path("/home/alice/weights.pt")
        self.password = "hunter2-hunter2"


class Bound(Block):
    def __init__(self) -> None:
        super().__init__()
        self.helper = self.scaled
        self.methods = [Tensor.abs, torch.relu]

    def scaled(self, x: Tensor) -> Tensor:
        return self.methods[0](x)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.helper(x))


class Parent(Block):
    def __init__(self) -> None:
        super().__init__()
        self.child = Child(self)

    def forward(self, x: Tensor) -> Tensor:
        return self.child(super().forward(x))


class Child(nn.Module):
    def __init__(self, parent: nn.Module) -> None:
        super().__init__()
        self.parent = weakref.ref(parent)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.parent().SCALE  # type: ignore[union-attr, operator]


class Abstract(nn.Module, abc.ABC):
    @abc.abstractmethod
    def gate(self, x: Tensor) -> bool: ...

    def forward(self, x: Tensor) -> Tensor:
        SEEN.append(1)
        return x if self.gate(x) else -x * MASK


@registered("concrete")
class Concrete(Abstract):
    def gate(self, x: Tensor) -> bool:
        import userland.gates as mine
        from userland.gates import gate

        return gate(x) and mine.SCALE > 0


class Environment(Block):
    def __init__(self) -> None:
        super().__init__()
        self.home = environ["HOME"]
        self.token = g.TOKEN
        self.place = "/home/alice/data/train.bin"

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * len((self.home, self.token, self.place))


def hooked() -> nn.Module:
    model = Block()
    model.fc.register_forward_hook(lambda module, args, output: output)
    model.register_forward_pre_hook(lambda module, args, kwargs: (args, kwargs), with_kwargs=True)
    return model


def parametrized() -> nn.Module:
    return nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)), Block())


def replaced() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4), Block())
    old = model[1].forward
    model[1].forward = lambda x: old(x) * 2  # type: ignore[method-assign]
    return model


def in_a_dict() -> nn.Module:
    return nn.Sequential(nn.ModuleDict({"a-b": Block(), "class": nn.ReLU(), "1": nn.Identity()})["a-b"])


MAKERS: dict[str, Callable[[], nn.Module]] = {
    "a decorated forward": Decorated,
    "settings in dataclasses, enums and slots": Configured,
    "a generic class": Typed,
    "modules as namespaces": OfModules,
    "lambdas, one of a table": Lambdas,
    "an operator of one's own, called by name": Operator,
    "named tuples, ranges, numpy": Plain,
    "what is never read": Unread,
    "bound methods": Bound,
    "a child that knows its parent": Parent,
    "a registry, globals, imports in functions": Concrete,
    "the environment": Environment,
    "hooks": hooked,
    "parametrized weights": parametrized,
    "a forward that was replaced": replaced,
    "odd names in a ModuleDict": in_a_dict,
}
