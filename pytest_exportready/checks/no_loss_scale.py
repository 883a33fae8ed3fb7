"""The loss scale of mixed-precision training is not part of the program.

Why it matters:
    `scaler.scale(...)` or a product with `scaler.get_scale()` in `forward` belongs to the training step.
    torch.export records the current scale (65536 initially) as a number: the program agrees with the eager
    module, and its outputs are too large by that factor. Products with the scale of a GradScaler in
    `training_state`, in an attribute of a module, or in a variable of the file of its class are looked for.

Example:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.scaler = torch.amp.GradScaler("cpu")
            self.head = nn.Linear(2, 1)

        def forward(self, x):
            return self.head(x) * self.scaler.get_scale()

    export_ready_check(Net().eval(), (torch.ones(1, 2),))

Instead:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.scaler = torch.amp.GradScaler("cpu")
            self.head = nn.Linear(2, 1)

        def forward(self, x):
            return self.head(x)

    export_ready_check(Net().eval(), (torch.ones(1, 2),))

Severity:
    error: the scale is in a tensor, or the product is returned.
    warning: another product with the same number, which may be a coincidence (audio divides by 32768).

Not reported:
    Any number if no GradScaler is enabled.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

import torch
from torch import nn
from torch.amp import GradScaler
from torch.export import ExportedProgram

from pytest_exportready.analysis.program.nodes import operator_name, owner, source
from pytest_exportready.analysis.program.scalar_factors import factors
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.checks._check import Check, Subject, nothing
from pytest_exportready.checks.grad_scaler_cleared import scalers

RULE = Rule("ER142", "no_loss_scale")


def inspect_program(program: ExportedProgram, subject: Subject) -> Iterator[Finding]:
    scales = {scale: where for where, scale in _scales(subject) if scale not in (0.0, 1.0)}
    if not scales:
        return
    inverses = {1.0 / scale: where for scale, where in scales.items()}
    for factor in factors(program):
        where = scales.get(factor.value) or inverses.get(factor.value)
        if where:
            file, line = source(factor.node)
            yield RULE.report(
                "error" if factor.returned or not factor.literal else "warning",
                owner(factor.node),
                f"`{operator_name(factor.node)}` uses the number {factor.value:g}, the scale of GradScaler `{where}`.",
                "Remove the scale from `forward`; call `scaler.scale(loss).backward()` in the training step.",
                file=file,
                line=line,
            )


def _scales(subject: Subject) -> Iterator[tuple[str, float]]:
    for where, scaler in {**scalers(subject), **_in_files(subject.module)}.items():
        if isinstance(scaler, Mapping):
            scale = scaler.get("scale")
        else:
            scale = scaler.get_scale() if scaler.is_enabled() else None
        if isinstance(scale, (int, float)):
            yield where, float(scale)


def _in_files(model: nn.Module) -> dict[str, GradScaler]:
    """Return the GradScalers in variables of the files that define the modules' classes."""
    files = {type(module).__module__ for module in model.modules()}
    names = [vars(sys.modules[file]) for file in sorted(files) if file in sys.modules]
    return {name: value for table in names for name, value in table.items() if isinstance(value, GradScaler)}


class _Scaled(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 1)
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.linear(x) * self.factor).mean()  # type: ignore[no-any-return]


def _net(factor: float, *, enabled: bool = True) -> Subject:
    scaler = GradScaler("cpu", enabled=enabled)
    return Subject(_Scaled(factor).eval(), (torch.ones(1, 2),), training_state={"scaler": scaler})


CHECK = Check(
    rule=RULE,
    inspect=nothing,
    inspect_program=inspect_program,
    good=(
        lambda: _net(2.0),
        lambda: _net(2.0**16, enabled=False),
        lambda: Subject(_Scaled(2.0**16).eval(), (torch.ones(1, 2),)),
    ),
    bad=(lambda: _net(2.0**16), lambda: _net(2.0**-16)),
)
