"""No constant of the program is a copy of one of its weights.

``self.w_t = self.w.detach().t().clone()`` in the constructor, or a cache of a weight in a list or a config object, is a
constant of the program outside its state dict: new weights that are loaded by name do not reach it. Told is only what
is certain: equal to a parameter value by value (as it is, transposed, flat, or in another dtype), with at least 8
different values. An error where the program does not read the parameter at all, so that the copy stands in for it; a
warning where it reads both. Fine are tables, masks and positions, and snapshots of weights that were trained since.

Bad:  ``self.w16 = self.w.detach().half()`` in ``__init__``, only ``self.w16`` in ``forward``
Good: ``self.w.half()`` in ``forward``
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn
from torch.export import ExportedProgram

from pytest_exportready.analysis.module.unregistered_tensors import unregistered_tensors
from pytest_exportready.analysis.module.wrappers import unwrap
from pytest_exportready.analysis.program.unused_state import unread_state
from pytest_exportready.analysis.program.weight_copies import copied_weights, same_numbers
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.checks._check import Check, Subject, nothing

RULE = Rule("ER144", "no_weight_copies")


def inspect_program(program: ExportedProgram, subject: Subject) -> Iterator[Finding]:
    unread = set(unread_state(program))
    for copy in copied_weights(program):
        place = _place(subject, copy.constant, program.constants[copy.constant])
        trained = program.state_dict[copy.weight].requires_grad
        fix = f"read {copy.weight}{copy.form} itself in forward; keep no copy of it"
        if copy.weight in unread:
            tell = RULE.error if trained else RULE.warning
            yield tell(
                place,
                f"a copy of {copy.weight}, which the program does not read itself: new weights loaded by name change "
                "nothing.",
                fix,
            )
        elif trained:
            yield RULE.warning(place, f"a copy of {copy.weight}, which new weights loaded by name leave as it is.", fix)


def _place(subject: Subject, constant: str, value: torch.Tensor) -> str:
    """Where the module keeps the constant; its name in the program when it is not found there."""
    kept = unregistered_tensors(unwrap(subject.model)[0], functions=True)
    alike = (place for place, tensor in kept if tensor.dtype == value.dtype and same_numbers(value, tensor.detach()))
    return next(alike, constant)


class _Kept(nn.Module):
    def __init__(self, reads_copy: bool) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.arange(12.0).reshape(3, 4))
        self.kept = {"w": self.w.detach().clone()}
        self.table = torch.arange(12.0).reshape(3, 4).cos()
        self.reads_copy = reads_copy

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ ((self.kept["w"] if self.reads_copy else self.w) + self.table)


CHECK = Check(
    rule=RULE,
    inspect=nothing,
    inspect_program=inspect_program,
    good=(lambda: Subject(_Kept(reads_copy=False).eval(), (torch.ones(2, 3),)),),
    bad=(lambda: Subject(_Kept(reads_copy=True).eval(), (torch.ones(2, 3),)),),
    requires=("weights_read_directly", "caches_fresh"),
)
