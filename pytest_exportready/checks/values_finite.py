"""Every weight is a finite number.

Why it matters:
    A weight beyond 65504 becomes infinite in `model.half()`; a step after an overflow leaves NaN.
    torch.export copies both, and the program agrees with the eager module. As long as the example inputs do
    not reach the weight, or a later operator hides it (`nan_to_num`, a sigmoid, an embedding row that is not
    used), nothing shows.

Example:
    model = nn.Linear(2, 2).eval()
    nn.init.constant_(model.weight, 1e5)
    export_ready_check(model.half(), (torch.zeros(1, 2).half(),))

Instead:
    model = nn.Linear(2, 2).eval()
    nn.init.constant_(model.weight, 1e5)
    export_ready_check(model.to(torch.bfloat16), (torch.zeros(1, 2).to(torch.bfloat16),))

Severity:
    error: NaN in a parameter or buffer, or an infinity in a parameter.

Not reported:
    Infinities in buffers (an attention mask) and `-inf` in frozen parameters; running statistics, see ER302.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from pytest_exportready.analysis.module.nonfinite import not_finite
from pytest_exportready.analysis.torch_internals.modules import is_norm
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import few, subject_of
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER310", "values_finite")


def inspect(subject: Subject) -> Iterator[Finding]:
    model = subject.module
    statistics = {id(b) for m in model.modules() if is_norm(m) for _, b in m.named_buffers(recurse=False)}
    buffers = {name: buffer for name, buffer in model.named_buffers() if id(buffer) not in statistics}
    state = {**dict(model.named_parameters()), **buffers}
    broken = [name for name in not_finite(state) if not _masks(state[name], anything=name in buffers)]
    if broken:
        halves = any(state[name].dtype == torch.float16 for name in broken)
        yield RULE.error(
            broken[0],
            f"{subject_of(len(broken), 'tensor')} not finite (NaN or infinity): {few(broken)}.",
            "Call `model.to(torch.bfloat16)` instead of `half()`: float16 overflows above 65504."
            if halves
            else "Load the last checkpoint with finite weights: `model.load_state_dict(checkpoint)`.",
        )


def _masks(tensor: torch.Tensor, anything: bool) -> bool:
    """Return whether the infinities may be a mask: no NaN, and only minus infinity in a frozen parameter."""
    values = torch.view_as_real(tensor.detach().resolve_conj()) if tensor.is_complex() else tensor.detach()
    if bool(values.isnan().any()):
        return False
    return anything or (not tensor.requires_grad and not bool(values.isposinf().any()))


def _net(weight: float, trained: bool = True) -> Subject:
    linear = nn.Linear(2, 2)
    with torch.no_grad():
        linear.weight[0, 0] = weight
    return Subject(nn.Sequential(linear, nn.Sigmoid()).eval().requires_grad_(trained), (torch.ones(1, 2),))


def _masked() -> Subject:
    model: nn.Module = nn.Linear(2, 2).eval()
    model.register_buffer("mask", torch.full((4, 4), float("-inf")).triu(1))
    return Subject(model, (torch.ones(1, 2),))


CHECK = Check(
    rule=RULE,
    inspect=inspect,
    good=(lambda: _net(6e4), _masked, lambda: _net(float("-inf"), trained=False)),
    bad=(lambda: _net(float("nan")), lambda: _net(float("inf")), lambda: _net(float("nan"), trained=False)),
)
