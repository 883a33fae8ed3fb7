"""Small modules of many kinds, with inputs: what the tests of fingerprints export."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.export import Dim, ExportedProgram

Shapes = Any
Built = tuple[nn.Module, tuple[Any, ...], dict[str, Any], Shapes]


class Lambda(nn.Module):
    """A module whose forward is a function of its holder and the inputs."""

    def __init__(self, function: Callable[..., Any], **held: Any) -> None:
        super().__init__()
        self.function = function
        for name, value in held.items():
            if isinstance(value, nn.Parameter | nn.Module):
                setattr(self, name, value)
            else:
                self.register_buffer(name, value, persistent=not name.startswith("table"))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


X = torch.arange(12.0).reshape(4, 3) + 1
W = nn.Parameter(torch.arange(9.0).reshape(3, 3) / 7)


def _written(m: Any, x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    z = y + 1
    y.mul_(3)
    return y - z


def _counted(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.count.add_(1)
    return x * m.count


def _branch(m: Any, x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda v: v @ m.weight, lambda v: v - 1, (x,))


def _autocast(m: Any, x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return x @ m.weight


def _chosen(m: Any, x: torch.Tensor) -> torch.Tensor:
    n = (x > 3).sum().item()
    torch._check(n < 100)
    return torch.arange(n) + x.shape[0]


def _sliced(m: Any, x: torch.Tensor) -> tuple[torch.Tensor, int]:
    return x[1:, ::2] / x.shape[0], x.shape[0] + 1


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(x)[0][:, -1])


def _tied() -> nn.Module:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    return model


BATCH = {0: Dim("batch", min=2, max=64)}
PROGRAMS: dict[str, Callable[[], Built]] = {
    "linear": lambda: (nn.Linear(3, 2), (X,), {}, None),
    "convolutions": lambda: (
        nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()).eval(),
        (torch.ones(2, 2, 8, 8),), {}, [BATCH],
    ),
    "training": lambda: (nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.3)).train(), (X,), {}, None),
    "attention": lambda: (
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), (torch.ones(2, 5, 8),), {}, None,
    ),
    "recurrent": lambda: (Recurrent().eval(), (torch.ones(2, 5, 3),), {}, None),
    "tied": lambda: (_tied(), (X,), {}, [BATCH]),
    "written": lambda: (Lambda(_written), (X,), {}, None),
    "counted": lambda: (Lambda(_counted, count=torch.zeros(())), (X,), {}, None),
    "branch": lambda: (Lambda(_branch, weight=W), (X,), {}, None),
    "autocast": lambda: (Lambda(_autocast, weight=W), (X,), {}, None),
    "chosen": lambda: (Lambda(_chosen), (X,), {}, None),
    "sliced": lambda: (Lambda(_sliced), (X,), {}, [{0: Dim("batch", min=3, max=64)}]),
    "random": lambda: (Lambda(lambda m, x: (torch.rand_like(x), torch.randn_like(x) * x)), (X,), {}, None),
    "table": lambda: (Lambda(lambda m, x: m.table[x.long() % 5], table=torch.arange(5.0)), (X,), {}, None),
    "named": lambda: (
        Lambda(lambda m, x, *, scale, bias: {"sum": x * scale + bias[0], "difference": x / scale - bias[1]}),
        (X,), {"bias": [X + 1, X * 2], "scale": X + 2}, None,
    ),
    "related": lambda: (
        Lambda(lambda m, x, y: torch.cat([x, y]).reshape(-1, 2, 3).sum(1)), (X, X + 1), {}, [{0: Dim.AUTO}] * 2,
    ),
}  # fmt: skip


def export(name: str, strict: bool = False) -> ExportedProgram:
    torch.manual_seed(len(name))
    model, args, kwargs, shapes = PROGRAMS[name]()
    named = {"args": tuple(shapes)} if shapes and isinstance(model, Lambda) else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an LSTM's flat weights
        return torch.export.export(model, args, kwargs, dynamic_shapes=named or shapes, strict=strict)
