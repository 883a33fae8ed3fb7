"""No constant of the program is a copy of one of its weights.

Why it matters:
    `self.w_t = self.w.detach().t().clone()` in `__init__`, or a weight cached in a list or a config object,
    becomes a constant of the program outside its state dict. New weights that are loaded by name do not
    change it. Only certain copies are reported: equal to a parameter value by value (as it is, transposed,
    flat, or in another dtype), with at least 8 different values.

Example:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(4, 4))
            self.copy = self.w.detach().clone()

        def forward(self, x):
            return x @ self.copy

    export_ready_check(Net(), (torch.ones(2, 4),))

Instead:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(4, 4))

        def forward(self, x):
            return x @ self.w

    export_ready_check(Net(), (torch.ones(2, 4),))

Severity:
    error: the program does not read the parameter itself.
    warning: the program reads both, or the parameter is frozen.

Not reported:
    Tables, masks, positions, and copies of weights that were trained since.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn
from torch.export import ExportedProgram

from pytest_exportready.analysis.module.unregistered_tensors import unregistered_tensors
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
        message = f"This constant is a copy of `{copy.weight}`. New weights that are loaded by name do not change it."
        fix = f"Read `{copy.weight}{copy.form}` in `forward` instead of a copy."
        if copy.weight in unread:
            message += f" The program does not read `{copy.weight}` itself."
            yield RULE.report("error" if trained else "warning", place, message, fix)
        elif trained:
            yield RULE.warning(place, message, fix)


def _place(subject: Subject, constant: str, value: torch.Tensor) -> str:
    """Return where the module keeps the constant, or its name in the program."""
    kept = unregistered_tensors(subject.module, functions=True)
    same = (place for place, tensor in kept if tensor.dtype == value.dtype and same_numbers(value, tensor.detach()))
    return next(same, constant)


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
