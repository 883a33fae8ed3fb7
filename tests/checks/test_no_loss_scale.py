"""A loss scale in the program is reported wherever the scaler is; equal numbers by chance do not fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.amp import GradScaler

from pytest_exportready.case.finding import Finding
from pytest_exportready.checks._check import Subject
from pytest_exportready.checks.no_loss_scale import inspect_program

OF_THE_FILE = GradScaler("cpu", init_scale=4096.0)


class Net(nn.Module):
    def __init__(self, end: Callable[[Any, Tensor], Tensor], **attributes: object) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.end = end
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self, self.linear(x))


class Region(Net):
    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return self.end(self, self.linear(x))


def found(model: nn.Module, scaler: object = None) -> list[Finding]:
    model.eval()(torch.ones(2, 4))  # as the stage before the export does: a scaler makes its tensors at first use
    program = torch.export.export(model.eval(), (torch.ones(2, 4),))
    return list(inspect_program(program, Subject(model, training_state={"scaler": scaler} if scaler else {})))


def used(scale: float) -> GradScaler:
    scaler = GradScaler("cpu", init_scale=scale)
    scaler.scale(torch.ones(1))
    return scaler


FAULTS = {
    "attribute": lambda: (Net(lambda net, y: net.scaler.scale(y), scaler=used(1024.0)), None),
    "within": lambda: (Net(lambda net, y: net.scaler.scale(y).relu() + 1, scaler=used(1024.0)), None),
    "in a region": lambda: (Region(lambda net, y: net.scaler.scale(y), scaler=used(1024.0)), None),
    "of the file": lambda: (Net(lambda net, y: OF_THE_FILE.scale(y)), None),
    "number": lambda: (Net(lambda net, y: y * 512.0), GradScaler("cpu", init_scale=512.0)),
    "number, averaged": lambda: (Net(lambda net, y: (y * 512.0).mean()), used(512.0).state_dict()),
    "inverse": lambda: (Net(lambda net, y: y.mul_(1 / 512.0)), used(512.0)),
    "quotient": lambda: (Net(lambda net, y: y.square().mean() / 512), used(512.0)),
}


@pytest.mark.parametrize("build", FAULTS.values(), ids=FAULTS)
def test_told_with_its_line(build: Callable[[], tuple[nn.Module, object]]) -> None:
    model, scaler = build()
    finding, *more = found(model, scaler)
    assert not more
    assert (finding.severity, finding.file) == ("error", __file__)
    assert finding.line == type(model).forward.__code__.co_firstlineno + (2 if isinstance(model, Region) else 1)
    assert "training step" in finding.fix


def test_the_same_number_inside_is_a_warning() -> None:
    audio = Net(lambda net, y: net.linear(y / 32768.0))
    assert [f.severity for f in found(audio, used(32768.0))] == ["warning"]


HEALTHY = {
    "no scaler": lambda: (Net(lambda net, y: y * 65536.0), None),
    "other number": lambda: (Net(lambda net, y: y * 2.0), GradScaler("cpu")),
    "disabled": lambda: (
        Net(lambda net, y: net.scaler.scale(y * 65536.0), scaler=GradScaler("cpu", enabled=False)),
        None,
    ),
    "scale of 1": lambda: (Net(lambda net, y: y * 1.0), used(1.0).state_dict()),
    "state dict of a disabled one": lambda: (Net(lambda net, y: y * 65536.0), {}),
    "sum, no product": lambda: (Net(lambda net, y: y + 65536.0), GradScaler("cpu")),
    "learned": lambda: (Net(lambda net, y: y * net.gain, gain=nn.Parameter(torch.tensor(65536.0))), GradScaler("cpu")),
}


@pytest.mark.parametrize("build", HEALTHY.values(), ids=HEALTHY)
def test_silent(build: Callable[[], tuple[nn.Module, object]]) -> None:
    assert found(*build()) == []
