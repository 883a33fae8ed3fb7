"""Tensors that `forward` creates are on the device of its inputs.

Why it matters:
    `torch.arange(n)` without `device=`, a tensor literal, `.cpu()` or a device from `LOCAL_RANK` work on the
    machine where the model was built. torch.export records the device, and the program fails on the target
    device. A copy of the model runs on the meta device to find them, so the target device is not needed.

Example:
    class Positions(nn.Module):
        def forward(self, x):
            return x + torch.arange(x.shape[1])

    export_ready_check(Positions(), (torch.ones(3, 2),), target_device="cuda")

Instead:
    class Positions(nn.Module):
        def forward(self, x):
            return x + torch.arange(x.shape[1], device=x.device)

    export_ready_check(Positions(), (torch.ones(3, 2),), target_device="cuda")

Severity:
    error: such a tensor meets tensors of the model, and `target_device` is not the device of the model.

Not reported:
    0-dimensional tensors and indices on the CPU, outputs that are moved, `"cuda" if x.is_cuda else "cpu"`.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from pytest_exportready.analysis.execution.detectors.hardcoded_devices import (
    HardcodedTensor,
    hardcoded_tensors,
    home,
    is_at,
)
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER210", "devices_follow_inputs")


def inspect(subject: Subject) -> Iterator[Finding]:
    model = subject.module
    if subject.target_device is None or is_at(home(model), torch.device(subject.target_device)):
        return
    try:
        found = hardcoded_tensors(model, subject.args, subject.kwargs, torch.device(subject.target_device))
    except Exception:
        return  # the model cannot be copied, or has tensors that cannot be on the meta device
    for tensor in found:
        yield RULE.error(
            "",
            f"{_created(tensor)} on {tensor.device} for inputs on any device. "
            f"On {subject.target_device} this mixes devices.",
            _fix(tensor),
            file=tensor.file,
            line=tensor.line,
        )


def _created(tensor: HardcodedTensor) -> str:
    if tensor.operator == "to":
        return "`forward` copies a tensor and uses it"
    return (
        f"`forward` uses {tensor.operator},"
        if " " in tensor.operator
        else f"`torch.{tensor.operator}()` creates a tensor"
    )


def _fix(tensor: HardcodedTensor) -> str:
    if tensor.operator == "to":
        return f'Remove the `.to("{tensor.device}")` or `.cpu()`, or move the result back with `.to(x.device)`.'
    if " " in tensor.operator:
        return "Register the tensor as a buffer in `__init__`, and read that in `forward`."
    return f"Use `torch.{tensor.operator}(..., device=x.device)` with an input `x`, or a buffer made in `__init__`."


class _Positions(nn.Module):
    def __init__(self, follow: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(8, 2)
        self.follow = follow

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(x.shape[0], device=x.device) if self.follow else torch.arange(x.shape[0])
        return x + self.table(places)  # type: ignore[no-any-return]


def _net(follow: bool, target: str | None) -> Subject:
    return Subject(_Positions(follow).eval(), (torch.ones(3, 2),), target_device=target)


CHECK = Check(
    rule=RULE,
    inspect=inspect,
    good=(
        lambda: _net(follow=True, target="cuda"),
        lambda: _net(follow=False, target=None),
        lambda: _net(follow=False, target="cpu"),
        lambda: Subject(nn.LSTM(2, 3).eval(), (torch.ones(1, 2, 2),), target_device="cuda"),
    ),
    bad=(lambda: _net(follow=False, target="cuda"),),
    requires=("devices_consistent",),
)
