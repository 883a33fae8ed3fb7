"""No parameter holds the gradient of the last training step.

Why it matters:
    torch.export ignores gradients, so nothing fails. But a gradient doubles the memory of the parameter, some
    code copies it into checkpoints, and the next `backward()` adds to it: the first step after a resume is
    wrong. A gradient that is not finite shows that the last step was skipped as an overflow.

Example:
    model = nn.Linear(2, 2)
    model(torch.ones(1, 2)).sum().backward()
    export_ready_check(model.eval(), (torch.ones(1, 2),))

Instead:
    model = nn.Linear(2, 2)
    model(torch.ones(1, 2)).sum().backward()
    model.zero_grad(set_to_none=True)
    export_ready_check(model.eval(), (torch.ones(1, 2),))

Severity:
    warning: any parameter has a gradient.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from pytest_exportready.analysis.module.tensor_values import all_finite
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
        f"Gradients remain on {count} ({mebibytes:.1f} MiB): {few(left)}.{overflow}",
        "Call `optimizer.zero_grad(set_to_none=True)` after the last step.",
    )


def remedy(subject: Subject) -> list[str]:
    left = _gradients(subject)
    for parameter in subject.module.parameters():
        parameter.grad = None
    return [f"Set the gradients of {counted(len(left), 'parameter')} to None."] if left else []


def _gradients(subject: Subject) -> dict[str, torch.Tensor]:
    named = subject.module.named_parameters()
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
