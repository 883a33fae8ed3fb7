"""source: lines that ask for tensor values or write state are found; harmless Python is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from pytest_exportready.analysis.source.value_dependent_lines import suspects

X, MASK = torch.ones(4, 3), torch.tensor([True, False, True, True])
COUNTS = {"calls": 0}
FLAG = True


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.drop = nn.Linear(3, 3), nn.Dropout()
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
        self.register_buffer("seen", torch.zeros(1))
        self.scale: float | None = None
        self.history: list[Tensor] = []
        self.heads = 2


def helper(x: Tensor) -> Tensor:
    if x.sum() > 0:  # HELPER
        return x
    return -x


class Faults(Base):
    """Every line that is marked, and no other."""

    def forward(self, x: Tensor, mask: Tensor, y: Tensor | None = None) -> Any:
        x = self.linear(x)
        if x.mean() > 0:  # branch
            x = x + 1
        z = x * 2 if (x > 0).all() else x  # branch
        while x.norm() > 100:  # branch
            x = x / 2
        assert not torch.isnan(x).any()  # branch
        if x.shape[0] > 1 and x.max() > 0:  # branch
            x = x - 1
        count = int(x.sum())  # number
        if count > 3:  # branch
            x = x + count
        value = x.max().item()  # number
        root = math.sqrt(x.sum())  # number
        low = min(x.min(), x.max())  # branch
        kept = x[mask]  # size
        if kept.shape[0] > 2:  # branch
            kept = kept * 2
        found = torch.nonzero(x)  # size
        for row in x:  # loop
            z = z + row
        self.calls = 1  # state
        self.history.append(x)  # state
        COUNTS["calls"] += 1  # state
        self.linear.weight.data = x  # state
        part = self.layers[int(x.argmax())]  # number
        same = torch.equal(x, z)  # number
        return helper(x), z, value, root, low, kept, found, part, same


class Healthy(Base):
    """Python on shapes, flags, configuration and types."""

    def forward(self, x: Tensor, mask: Tensor, y: Tensor | None = None) -> Any:
        if x.shape[0] > 2 or x.size(1) == 3 or x.dim() == 2 or len(x) > 1 or x.numel() > 4:
            x = x.reshape(x.shape[0], -1)
        if self.training and x.sum() > 0:
            x = self.drop(x)
        if y is None:
            y = x
        elif y.sum() > 0:
            y = y + 1
        if isinstance(x, Tensor) and x.dtype == torch.float32 and x.is_floating_point() and not x.is_sparse:
            x = functional.relu(x)
        if self.scale is not None and x.max() > self.scale:
            x = x / self.scale
        if not torch.compiler.is_exporting():
            assert (x == x).all()
        if torch.jit.is_scripting() and bool(x.sum()):
            return x
        for layer in self.layers:
            x = layer(x)
        for _ in range(x.shape[0] // self.heads):
            x = x + 1
        a, b = x.chunk(2)
        parts = [t * 2 for t in (a, b)]
        local: list[Tensor] = []
        local.append(a)
        if FLAG and x.device.type == "cpu":
            x = torch.cat(parts + local)
        return torch.where(x > 0, x, -x).max(1).values, mask


def marked(module: type) -> dict[int, str]:
    """The kinds in the comments, by line."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    first = module.forward.__code__.co_firstlineno  # type: ignore[attr-defined]
    last = max(line for _, _, line in module.forward.__code__.co_lines() if line)  # type: ignore[attr-defined]
    return {n: lines[n - 1].split("  # ")[1] for n in range(first, last + 1) if "  # " in lines[n - 1]}


@pytest.mark.parametrize("module", [Faults, Healthy])
def test_marked_lines_and_no_others(module: Callable[[], nn.Module]) -> None:
    """Each with its kind, the line of the called function too."""
    found = suspects(module(), (X, MASK), {})
    own = {s.line: s.what for s in found if s.words and s.line not in _helper_lines()}
    assert own == marked(module)  # type: ignore[arg-type]
    assert all(s.file == __file__ for s in found)
    assert [s.line for s in found if s.line in _helper_lines()] == (_helper_lines()[1:2] if module is Faults else [])


def _helper_lines() -> list[int]:
    first = helper.__code__.co_firstlineno
    return [first, first + 1]


def test_what_the_inputs_are_decides() -> None:
    """The same line asks a tensor, a number, or nothing known."""

    class Net(nn.Module):
        def forward(self, n: Any) -> Any:
            return n if n > 0 else -n

    assert [s.what for s in suspects(Net(), (X,), {})] == ["branch"]
    assert suspects(Net(), (3,), {}) == []
    assert suspects(Net(), (), {"n": object()}) == []
    assert [s.what for s in suspects(Net(), (), {"n": X})] == ["branch"]


def test_a_line_behind_an_unknown_condition_is_unsure() -> None:
    class Net(nn.Module):
        def forward(self, x: Tensor, unknown: Any) -> Any:
            if unknown.enabled():
                return x if x.sum() > 0 else -x
            return x

    assert [s.sure for s in suspects(Net(), (X, object()), {})] == [False]


def test_submodules_methods_and_autograd_functions_are_followed() -> None:
    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            return x * float(x.sum())

    class Inner(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return self.step(x)

        @torch.no_grad()
        def step(self, x: Tensor) -> Tensor:
            return x if x.sum() > 0 else Function.apply(x)

    class Layer(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * x.max().item()

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(3, 3), Inner())
            self.layers = nn.ModuleList([Layer(), Layer()])

        def forward(self, x: Tensor) -> Any:
            for layer in self.layers:
                x = layer(x)
            return self.inner(x)

    assert [s.what for s in suspects(Outer(), (X,), {})] == ["number", "branch", "number"]


def test_recursion_and_lack_of_source_end_quietly() -> None:
    class Loops(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return self.forward(x)

    made = type("Made", (nn.Module,), {"forward": eval("lambda self, x: x if x.sum() > 0 else -x")})
    assert suspects(Loops(), (X,), {}) == suspects(made(), (X,), {}) == suspects(nn.Linear(3, 3), (X,), {}) == []


def test_nothing_of_the_users_is_run() -> None:
    """Neither properties nor forward."""

    class Net(nn.Module):
        @property
        def danger(self) -> Tensor:
            raise AssertionError("was run")

        def forward(self, x: Tensor) -> Any:
            return x if self.danger > 0 else 1 / 0

    assert suspects(Net(), (X,), {}) == []
