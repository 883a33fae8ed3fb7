"""Judge modules whose target is a GPU, for a process that has a pretended one: ``main`` prints the findings."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from pytest_exportready import export_ready_check

IMAGE, ROWS, TOKENS = (2, 3, 16, 16), (4, 16), (2, 6, 16)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x, need_weights=False)[0]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(16, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(x)[0]


def block(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers)


HEALTHY: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(16, 4), ROWS),
    "mlp": (lambda: block(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16)), ROWS),
    "conv": (lambda: nn.Conv2d(3, 8, 3), IMAGE),
    "convs": (lambda: block(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 1)), IMAGE),
    "batch norm": (lambda: block(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.SiLU()), IMAGE),
    "strided": (lambda: block(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.GroupNorm(2, 8), nn.ReLU()), IMAGE),
    "transposed": (lambda: nn.ConvTranspose2d(3, 4, 2, stride=2), IMAGE),
    "head": (lambda: block(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)), IMAGE),
    "layer norm": (lambda: block(nn.LayerNorm(16), nn.Linear(16, 16), nn.Softmax(-1)), TOKENS),
    "attention": (Attention, TOKENS),
    "transformer": (lambda: nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), TOKENS),
    "lstm": (Recurrent, TOKENS),
}


_library = torch.library.Library("on_another_device", "DEF")


def differing(name: str, on_cpu: Callable[[Tensor], Tensor], on_gpu: Callable[[Tensor], Tensor] | None) -> Any:
    """Return an operator with one kernel for each device."""
    _library.define(f"{name}(Tensor x) -> Tensor")
    _library.impl(name, on_cpu, "CPU")
    if on_gpu is not None:
        _library.impl(name, on_gpu, "CUDA")
    torch.library.register_fake(f"on_another_device::{name}", lambda x: torch.empty_like(on_cpu(x)), lib=_library)
    return getattr(torch.ops.on_another_device, name)


wrong = differing("wrong", lambda x: x * 0.5, lambda x: x * 0.505)
slightly_wrong = differing("slightly_wrong", lambda x: x * 0.5, lambda x: x * 0.5002)
rounds = differing("rounds", lambda x: x * 1.0, lambda x: x.half().float())
missing = differing("missing", lambda x: x * 2, None)
off_by_one = differing("off_by_one", lambda x: (x * 10).long(), lambda x: (x * 10).long() + 1)


class Does(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.linear, self.function = nn.Linear(16, 16), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.linear(x))


FAULTS: dict[str, Callable[[Tensor], Tensor]] = {
    "wrong kernel": lambda x: wrong(x) + 1,
    "slightly wrong kernel": lambda x: slightly_wrong(x) + 1,
    "no kernel": lambda x: missing(x) + 1,
    "wrong integers": lambda x: off_by_one(x),
    "is_cuda": lambda x: x * 2 if x.is_cuda else x,
    "device.type": lambda x: x * 2 if x.device.type == "cuda" else x,
    "get_device": lambda x: x * 2 if x.get_device() >= 0 else x,
    "rounded to half": lambda x: rounds(x) + 1,
}


def judged(model: nn.Module, x: Tensor) -> dict[str, Any]:
    readiness = export_ready_check(model.eval(), (x,), target_device="cuda", stages=["portability"])
    stage = next((stage for stage in readiness.stages if stage.name == "portability"), None)
    return {
        "errors": [finding.one_line for finding in readiness.errors],
        "ran": stage is not None and stage.facts.get("ran_there"),
        "stages": [f"{stage.name} {stage.outcome} {stage.reason}" for stage in readiness.stages],
    }


def main() -> None:
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    found = {}
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for name, (build, shape) in HEALTHY.items():
            found[f"{name} {dtype}"] = judged(build().to(dtype), torch.randn(shape, dtype=dtype))
    for name, function in FAULTS.items():
        found[name] = judged(Does(function), torch.randn(ROWS))
    json.dump(found, sys.stdout)
