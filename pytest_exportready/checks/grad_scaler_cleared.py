"""The GradScaler of mixed-precision training is between two iterations, and its scale is alive.

``unscale_`` and ``step`` leave a state for each optimizer that only ``update`` clears. A loop that ends, or
saves, before ``update`` leaves weights that may miss their last step (a pending overflow), gradients
divided but never applied, or a
scaler that cannot be pickled: the checkpoint beside the program then does not resume. A scale that is not
finite, or not above zero, makes every later step worthless; one that has collapsed below 1 means that
nearly every step was skipped: the parameters are finite, the export is clean, and the model has not been
trained (a warning; PyTorch's documentation of ``GradScaler.update`` names 1 as the limit). A disabled
scaler, and the state dict of a cleared one, are fine.

Bad:  ``scaler.unscale_(optimizer); save(model)``
Good: ``scaler.step(optimizer); scaler.update(); save(model)``
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.amp import GradScaler

from pytest_exportready.analysis.module.wrappers import unwrap
from pytest_exportready.analysis.torch_internals.modules import plain_attributes, scaler_states
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER304", "grad_scaler_cleared")

LIVING_SCALE = 1.0

UPDATE = "scaler.update() at the end of the iteration; to clear only: scaler.update(scaler.get_scale())"


def inspect(subject: Subject) -> Iterator[Finding]:
    for where, scaler in scalers(subject).items():
        if isinstance(scaler, Mapping):
            yield from _judge_scale(where, scaler.get("scale"))
        elif scaler.is_enabled():
            yield from _judge_states(where, scaler)
            yield from _judge_scale(where, scaler.get_scale())


def scalers(subject: Subject) -> dict[str, GradScaler | Mapping[str, Any]]:
    """Every GradScaler by its place: ``training_state["scaler"]`` (or its state dict), attributes of
    modules.
    """
    stated = subject.training_state.get("scaler")
    found: dict[str, GradScaler | Mapping[str, Any]] = {}
    if isinstance(stated, (GradScaler, Mapping)):
        found["scaler"] = stated
    for prefix, module in unwrap(subject.model)[0].named_modules():
        for name, value in plain_attributes(module).items():
            if isinstance(value, GradScaler) and all(value is not known for known in found.values()):
                found[f"{prefix}.{name}".removeprefix(".")] = value
    return found


def _judge_states(where: str, scaler: GradScaler) -> Iterator[Finding]:
    for state in scaler_states(scaler) or ():
        stage = getattr(state.get("stage"), "name", "")
        overflow = any(float(found) > 0 for found in state.get("found_inf_per_device", {}).values())
        if overflow:
            what = "an overflow (found_inf) is pending: the last optimizer step was skipped or must be"
        elif stage == "UNSCALED":
            what = "gradients were unscaled, but step() and update() never followed"
        elif stage == "STEPPED":
            what = "step() was called, but update() never followed"
        else:
            continue
        yield RULE.error(where, f"{what}.", UPDATE)


def _judge_scale(where: str, scale: object) -> Iterator[Finding]:
    if not isinstance(scale, (int, float)):
        return
    if not math.isfinite(scale) or scale <= 0:
        yield RULE.error(
            where,
            f"the loss scale is {scale}: no step since can have been right.",
            "train from the last checkpoint with a finite scale, GradScaler(init_scale=2.0**16)",
        )
    elif scale < LIVING_SCALE:
        yield RULE.warning(
            where,
            f"the loss scale has collapsed to {scale:g} (below 1): nearly every step was skipped.",
            "look for NaN in the gradients (a communication hook can keep it for ever), or use bfloat16",
        )


def remedy(subject: Subject) -> list[str]:
    actions = []
    for where, scaler in scalers(subject).items():
        if isinstance(scaler, GradScaler) and scaler.is_enabled() and scaler_states(scaler):
            scaler.update(scaler.get_scale())
            actions.append(f"cleared the state of {where} for each optimizer, its scale kept")
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
