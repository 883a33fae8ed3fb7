"""No parameter still carries the gradient of the last training step.

A gradient left on a parameter is no part of the model, yet it doubles the memory of whoever keeps the
module, is copied by some checkpoint code, and is added to by the next ``backward()``: the first step after
a resume is then wrong. Nothing fails: ``torch.export`` ignores gradients. A gradient that is not finite
says besides that the last step was an overflow (``torch.amp``: the step was skipped, the gradients stay).

Bad:  ``loss.backward(); optimizer.step(); export(model)``
Good: ``optimizer.step(); optimizer.zero_grad(set_to_none=True); export(model)``
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from pytest_exportready.analysis.module.tensor_values import all_finite
from pytest_exportready.analysis.module.wrappers import unwrap
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import counted, few
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER305", "no_residual_gradients")


def inspect(subject: Subject) -> Iterator[Finding]:
    left = _gradients(subject)
    if not left:
        return
    count = counted(len(left), "parameter")
    mebibytes = sum(grad.numel() * grad.element_size() for grad in left.values()) / 2**20
    broken = [name for name, grad in left.items() if all_finite(grad) is False]
    overflow = f" Not finite: {few(broken)}." if broken else ""
    yield RULE.warning(
        next(iter(left)),
        f"gradients left on {count} ({mebibytes:.1f} MiB): {few(left)}.{overflow}",
        "optimizer.zero_grad(set_to_none=True) after the last step",
    )


def remedy(subject: Subject) -> list[str]:
    left = _gradients(subject)
    for parameter in unwrap(subject.model)[0].parameters():
        parameter.grad = None
    return [f"set the gradients of {counted(len(left), 'parameter')} to None"] if left else []


def _gradients(subject: Subject) -> dict[str, torch.Tensor]:
    named = unwrap(subject.model)[0].named_parameters()
    return {name: p.grad for name, p in named if p.grad is not None}


def _stepped(scale: float = 1.0, clear: bool = False) -> Subject:
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    (model(torch.ones(2, 3)).sum() * scale).backward()
    optimizer.step()
    if clear:
        optimizer.zero_grad(set_to_none=True)
    return Subject(model.eval(), (torch.ones(2, 3),))


CHECK = Check(
    rule=RULE,
    inspect=inspect,
    remedy=remedy,
    good=(lambda: _stepped(clear=True), lambda: Subject(nn.Linear(2, 2).eval(), (torch.ones(1, 2),))),
    bad=(_stepped, lambda: _stepped(scale=float("inf"))),
)
