"""`forward` reads each weight itself, and not a view of it that was stored in an attribute.

Why it matters:
    `self.w_t = self.w.data.t()` is a plain tensor. While it shares memory with the weight, the program stores
    it as a constant of its own, and new weights loaded by name do not reach it. After `.to()`, `half()` or a
    load with `assign=True` the weight has other memory, and the view keeps the old values.

Example:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(2, 3))
            self.w_t = self.w.data.t()

        def forward(self, x):
            return x @ self.w_t

    export_ready_check(Net(), (torch.ones(1, 3),))

Instead:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(2, 3))

        def forward(self, x):
            return x @ self.w.t()

    export_ready_check(Net(), (torch.ones(1, 3),))

Severity:
    error: `forward` reads such a view.

Not reported:
    Parameters in a second place (`nn.LSTM`), views that a pre-forward hook or `forward` creates, a `clone()`.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from pytest_exportready.analysis.module.parameter_views import ParameterView, parameter_views
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER316", "weights_read_directly")


def inspect(subject: Subject) -> Iterator[Finding]:
    for view in parameter_views(subject.module):
        yield RULE.error(
            view.place,
            f"`forward` reads a view of `{view.weight}` that {_consequence(view)}",
            f"Read `self.{view.weight.rpartition('.')[2]}` in `forward`, and create the view there.",
        )


def _consequence(view: ParameterView) -> str:
    if view.shares:
        return "becomes a constant of the program. New weights that are loaded by name do not reach it."
    return "keeps old values: the weight has other memory since `.to()`, `half()` or a load."


class _Kept(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(2, 3))
        self.w_t = self.w.data.t()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.w @ self.w_t


class _Snapshot(_Kept):
    def __init__(self) -> None:
        super().__init__()
        self.w_t = self.w.data.t().clone()


CHECK = Check(
    rule=RULE,
    inspect=inspect,
    good=(
        lambda: Subject(nn.LSTM(2, 3).eval(), (torch.ones(1, 2, 2),)),
        lambda: Subject(nn.utils.spectral_norm(nn.Linear(2, 2)).eval(), (torch.ones(1, 2),)),
        lambda: Subject(_Snapshot().double().eval(), (torch.ones(1, 2).double(),)),
    ),
    bad=(
        lambda: Subject(_Kept().eval(), (torch.ones(1, 2),)),
        lambda: Subject(_Kept().double().float().eval(), (torch.ones(1, 2),)),
    ),
)
