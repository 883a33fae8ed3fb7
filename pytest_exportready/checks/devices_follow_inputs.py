"""What forward makes, it makes on the device of its inputs.

``torch.arange(n)`` without ``device=``, a tensor literal, ``device="cpu"``, ``.cpu()`` half-way or a device taken from
``LOCAL_RANK`` work where the model was built. ``torch.export`` writes the device into the program, and both
the program and the module fail on the device where they are to run. Judged when the case names a
``target_device`` other than the model's own, by running a copy on the meta device: no other device is needed. Fine
are 0-dimensional tensors on the CPU, indices on the CPU, moving the output, and ``"cuda" if x.is_cuda else "cpu"``.

Bad:  ``positions = torch.arange(ids.shape[1])``
Good: ``positions = torch.arange(ids.shape[1], device=ids.device)``
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from pytest_exportready.analysis.execution.detectors.hardcoded_devices import Stranger, home, is_at, strangers
from pytest_exportready.analysis.module.wrappers import unwrap
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER210", "devices_follow_inputs")


def inspect(subject: Subject) -> Iterator[Finding]:
    model = unwrap(subject.model)[0]
    if subject.target_device is None or is_at(home(model), torch.device(subject.target_device)):
        return
    try:
        found = strangers(model, subject.args, subject.kwargs, torch.device(subject.target_device))
    except Exception:
        return  # no copy, or tensors without a form on the meta device: nothing can be said
    for stranger in found:
        yield RULE.error(
            "",
            f"{_called(stranger)} is on {stranger.device} whatever device the inputs are on; on "
            f"{subject.target_device} it meets tensors that are there.",
            _fix(stranger),
            file=stranger.file,
            line=stranger.line,
        )


def _called(stranger: Stranger) -> str:
    if stranger.operator == "to":
        return "a copy to another device"
    return stranger.operator if " " in stranger.operator else f"torch.{stranger.operator}()"


def _fix(stranger: Stranger) -> str:
    if stranger.operator == "to":
        return f'leave out the .to("{stranger.device}") (or .cpu()), or move the result back with .to(x.device)'
    if " " in stranger.operator:
        return 'self.register_buffer("name", ...) in __init__, and read that in forward'
    return f"torch.{stranger.operator}(..., device=x.device), x an input; or register_buffer in __init__"


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
