"""The GradScaler of mixed-precision training is between two iterations, and its scale is usable.

Why it matters:
    `unscale_` and `step` leave a state for each optimizer that only `update` clears. A loop that ends before
    `update` has gradients that were divided but not applied, may miss its last step, and cannot be resumed
    from its checkpoint. A scale that fell below 1 means that nearly every step was skipped: the model
    exports, but was not trained.

Example:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters())
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(model(torch.ones(1, 2)).sum()).backward()
    scaler.step(optimizer)
    assert_grad_scaler_cleared(scaler)

Instead:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters())
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(model(torch.ones(1, 2)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert_grad_scaler_cleared(scaler)

Severity:
    error: `update` is missing; an overflow is pending; the scale is not finite or not positive.
    warning: the scale is below 1.

Not reported:
    A disabled scaler.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.amp import GradScaler

from pytest_exportready.analysis.torch_internals.modules import plain_attributes, scaler_states
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER304", "grad_scaler_cleared")

_LOWEST_SCALE = 1.0  # the limit that the documentation of GradScaler.update names

_UPDATE = "Call `scaler.update()` after each iteration; `scaler.update(scaler.get_scale())` keeps the scale."


def inspect(subject: Subject) -> Iterator[Finding]:
    for where, scaler in scalers(subject).items():
        if isinstance(scaler, Mapping):
            yield from _judge_scale(where, scaler.get("scale"))
        elif scaler.is_enabled():
            yield from _judge_states(where, scaler)
            yield from _judge_scale(where, scaler.get_scale())


def scalers(subject: Subject) -> dict[str, GradScaler | Mapping[str, Any]]:
    """Return by place the scaler (or its state dict) of ``training_state`` and those in attributes of modules."""
    stated = subject.training_state.get("scaler")
    found: dict[str, GradScaler | Mapping[str, Any]] = {}
    if isinstance(stated, (GradScaler, Mapping)):
        found["scaler"] = stated
    for prefix, module in subject.module.named_modules():
        for name, value in plain_attributes(module).items():
            if isinstance(value, GradScaler) and all(value is not known for known in found.values()):
                found[f"{prefix}.{name}".removeprefix(".")] = value
    return found


def _judge_states(where: str, scaler: GradScaler) -> Iterator[Finding]:
    for state in scaler_states(scaler) or ():
        stage = getattr(state.get("stage"), "name", "")
        overflow = any(float(found) > 0 for found in state.get("found_inf_per_device", {}).values())
        if overflow:
            message = "An overflow (`found_inf`) is pending: the last optimizer step was skipped or must be."
        elif stage == "UNSCALED":
            message = "Gradients were unscaled, but `step()` and `update()` were not called."
        elif stage == "STEPPED":
            message = "`step()` was called, but `update()` was not."
        else:
            continue
        yield RULE.error(where, message, _UPDATE)


def _judge_scale(where: str, scale: object) -> Iterator[Finding]:
    if not isinstance(scale, (int, float)):
        return
    if not math.isfinite(scale) or scale <= 0:
        yield RULE.error(
            where,
            f"The loss scale is {scale}, so no optimizer step since was correct.",
            "Train again from the last checkpoint with a finite scale: `GradScaler(init_scale=2.0**16)`.",
        )
    elif scale < _LOWEST_SCALE:
        yield RULE.warning(
            where,
            f"The loss scale fell to {scale:g} (below 1), so nearly every optimizer step was skipped.",
            "Look for NaN in the gradients (a communication hook can keep one), or train in bfloat16.",
        )


def remedy(subject: Subject) -> list[str]:
    actions = []
    for where, scaler in scalers(subject).items():
        if isinstance(scaler, GradScaler) and scaler.is_enabled() and scaler_states(scaler):
            scaler.update(scaler.get_scale())
            actions.append(f"Cleared the state of {where} for each optimizer; its scale is unchanged.")
    return actions


def _stopped_after(*calls: str) -> Subject:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = GradScaler("cpu", init_scale=8.0)
    scaler.scale(model(torch.ones(1, 2)).sum()).backward()
    for call in calls:
        getattr(scaler, call)(*(() if call == "update" else (optimizer,)))
    optimizer.zero_grad()
    return Subject(model.eval(), (torch.ones(1, 2),), training_state={"scaler": scaler})


def _state_dict(scale: float) -> Subject:
    state = GradScaler("cpu", init_scale=scale).state_dict()
    return Subject(nn.Linear(2, 1).eval(), (torch.ones(1, 2),), training_state={"scaler": state})


CHECK = Check(
    rule=RULE,
    inspect=inspect,
    remedy=remedy,
    good=(
        lambda: _stopped_after("unscale_", "step", "update"),
        lambda: _state_dict(2.0**16),
        lambda: Subject(nn.Linear(2, 1).eval(), (torch.ones(1, 2),), training_state={"scaler": {}}),
    ),
    bad=(
        lambda: _stopped_after("unscale_"),
        lambda: _stopped_after("step"),
        lambda: _state_dict(float("inf")),
        lambda: _state_dict(0.25),
    ),
)
