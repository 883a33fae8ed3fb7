"""The model has the values of the checkpoint that will ship.

Why it matters:
    `load_state_dict(..., strict=False)` skips every name that does not match. The layer keeps its random
    weights, the export succeeds, and the outputs of the program are wrong in full agreement with the eager
    module.

Example:
    model = nn.Linear(2, 2).eval()
    checkpoint = {"head.weight": torch.ones(2, 2), "head.bias": torch.zeros(2)}
    model.load_state_dict(checkpoint, strict=False)
    export_ready_check(model, (torch.ones(1, 2),), checkpoint=checkpoint)

Instead:
    model = nn.Linear(2, 2).eval()
    checkpoint = {"weight": torch.ones(2, 2), "bias": torch.zeros(2)}
    model.load_state_dict(checkpoint)
    export_ready_check(model, (torch.ones(1, 2),), checkpoint=checkpoint)

Severity:
    error: the checkpoint lacks a parameter, or a parameter or buffer has another shape or other values.

Not reported:
    Differences by a conversion between dtypes, merged LoRA weights, one name of a tied weight, further
    entries of the checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from pytest_exportready.analysis.module.lora import explained_by_merging
from pytest_exportready.analysis.module.snapshot import equal_bits
from pytest_exportready.analysis.module.tensor_values import readable
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import counted, few
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER306", "checkpoint_loaded")

_LOAD = "Call `model.load_state_dict(checkpoint)` with the default `strict=True` before exporting."


def inspect(subject: Subject) -> Iterator[Finding]:
    saved = subject.checkpoint
    if saved is None:
        return
    model = subject.module
    parameters = dict(model.named_parameters(remove_duplicate=False))
    known = {id(parameters[name]) for name in parameters if name in saved}
    missing = [name for name, p in parameters.items() if id(p) not in known and not p.is_meta]
    if missing:
        yield RULE.error(
            missing[0],
            f"No value in the checkpoint for {counted(len(missing), 'parameter')}, which keep their initial values: "
            f"{few(missing)}.",
            _LOAD,
        )
    state = {**parameters, **dict(model.named_buffers(remove_duplicate=False))}
    other = [name for name, tensor in state.items() if name in saved and _differs(tensor, saved[name])]
    other = [name for name in other if not explained_by_merging(model, name, saved[name])]
    if other:
        yield RULE.error(
            other[0],
            f"The model and the checkpoint differ in {counted(len(other), 'tensor')}: {few(other)}.",
            _LOAD,
        )


def _differs(own: torch.Tensor, saved: object) -> bool:
    if not isinstance(saved, torch.Tensor) or not readable(own) or not readable(saved):
        return False
    if own.layout != torch.strided or saved.layout != torch.strided:
        return False
    if own.shape != saved.shape or own.is_complex() != saved.is_complex():
        return True
    own, saved = own.detach(), saved.detach().to(own.device)
    return not (equal_bits(own, saved.to(own.dtype)) or equal_bits(own.to(saved.dtype), saved))


def _net(**changes: torch.Tensor) -> Subject:
    model = nn.Linear(2, 2).eval()
    saved = {name: value.clone() for name, value in model.state_dict().items()}
    return Subject(model, (torch.ones(1, 2),), checkpoint={**saved, **changes})


def _renamed() -> Subject:
    model = nn.Linear(2, 2).eval()
    saved = {f"head.{name}": value for name, value in model.state_dict().items()}
    return Subject(model, (torch.ones(1, 2),), checkpoint=saved)


CHECK = Check(
    rule=RULE,
    inspect=inspect,
    good=(_net, lambda: _net(step=torch.tensor(3)), lambda: Subject(nn.Linear(2, 2).eval(), (torch.ones(1, 2),))),
    bad=(lambda: _net(bias=torch.ones(2)), lambda: _net(bias=torch.ones(3)), _renamed),
    requires=("ddp_hooks_emptied", "state_dict_names", "ties_kept"),
)
