"""Every weight is a finite number.

A weight beyond 65504 becomes infinite in ``model.half()``; a step after an overflow leaves NaN. ``torch.export`` copies
both, and the program agrees with the module: as long as the example does not touch the weight, or a later
operator hides it (``nan_to_num``, a sigmoid, an embedding row that was not asked for), nothing shows. Buffers may hold
infinities (an attention mask) but no NaN; of a parameter that is not trained the same holds for ``-inf``. Running
statistics are judged by ``batchnorm_frozen``. Tensors are read once, without copies.

Bad:  ``model.half()`` with a weight of ``1e5``
Good: ``model.to(torch.bfloat16)``, which has the range of float32
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from pytest_exportready.analysis.module.nonfinite import not_finite
from pytest_exportready.analysis.module.wrappers import unwrap
from pytest_exportready.analysis.torch_internals.modules import is_norm
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import counted, few
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER310", "values_finite")


def inspect(subject: Subject) -> Iterator[Finding]:
    model = unwrap(subject.model)[0]
    statistics = {id(b) for m in model.modules() if is_norm(m) for _, b in m.named_buffers(recurse=False)}
    buffers = {name: buffer for name, buffer in model.named_buffers() if id(buffer) not in statistics}
    state = {**dict(model.named_parameters()), **buffers}
    broken = [name for name in not_finite(state) if not _masks(state[name], anything=name in buffers)]
    if broken:
        halves = any(state[name].dtype == torch.float16 for name in broken)
        yield RULE.error(
            broken[0],
            f"{counted(len(broken), 'tensor')} with a NaN or an infinity: {few(broken)}.",
            "model.to(torch.bfloat16) in place of half(): beyond 65504 float16 is infinite"
            if halves
            else "load the last checkpoint with finite weights: model.load_state_dict(checkpoint)",
        )


def _masks(tensor: torch.Tensor, anything: bool) -> bool:
    """Whether the infinities may be meant: no NaN, and for a parameter that is not trained minus infinity only."""
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
