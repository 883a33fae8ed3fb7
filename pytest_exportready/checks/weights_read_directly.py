"""forward reads a weight itself, not a view of it that was kept aside.

``self.w_t = self.w.data.t()`` in the constructor is a plain tensor. While it shares memory with the weight, the program
holds it as a constant of its own: new weights loaded by name do not reach it. After
``.to()``, ``half()`` or a load with ``assign=True`` the weight has other memory, the view keeps the old
values, and training never changes them. Fine are parameters kept in a second place (``nn.LSTM``), what forward or a
pre-forward hook makes anew, a ``clone()`` that is meant as a snapshot, and views that forward does not read.

Bad:  ``self.w_t = self.w.data.t()`` in ``__init__``, ``x @ self.w_t`` in ``forward``
Good: ``x @ self.w.t()`` in ``forward``
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from pytest_exportready.analysis.module.parameter_views import KeptView, kept_views
from pytest_exportready.analysis.module.wrappers import unwrap
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER316", "weights_read_directly")


def inspect(subject: Subject) -> Iterator[Finding]:
    for view in kept_views(unwrap(subject.model)[0]):
        yield RULE.error(
            view.place,
            f"forward reads {view.place}, {_what(view)}",
            f"read self.{view.weight.rpartition('.')[2]} in forward, and make the view there",
        )


def _what(view: KeptView) -> str:
    if view.shares:
        return f"a view of {view.weight}: a constant in the program, which new weights do not reach."
    return (
        f"taken from {view.weight} before that got other memory (.to(), half(), a load): its values are the old ones."
    )


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
