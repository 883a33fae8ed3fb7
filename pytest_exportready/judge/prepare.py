"""Prepare a module for export with the remedies of the checks, in order, on a copy or in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from pytest_exportready.analysis.execution.compare import Tolerance, compare
from pytest_exportready.analysis.execution.eager_reference import EagerReference
from pytest_exportready.analysis.module.copying import CannotCopy, faithful_copy
from pytest_exportready.analysis.module.sharding import sharded_parameters, sharding_modules, whole_copy
from pytest_exportready.analysis.module.wrappers import unwrap
from pytest_exportready.analysis.torch_internals.modules import is_fsdp1
from pytest_exportready.case.prepared import Prepared
from pytest_exportready.case.wording import counted
from pytest_exportready.checks._check import Subject
from pytest_exportready.checks._remedies import apply_remedies

if TYPE_CHECKING:
    from torch.amp import GradScaler
    from torch.optim import Optimizer

__all__ = ["CannotCopy", "OutputChanged", "prepare_for_export"]


class OutputChanged(RuntimeError):
    """The prepared module gives another output than the model: a remedy changed more than it may."""


def prepare_for_export(
    model: nn.Module,
    *,
    scaler: GradScaler | None = None,
    optimizer: Optimizer | None = None,
    device: torch.device | str | None = None,
    inplace: bool = False,
    example_inputs: tuple[Any, ...] | None = None,
    example_kwargs: Mapping[str, Any] | None = None,
) -> Prepared:
    """Return the module to export: unwrapped, whole, in eval mode, without gradients and backward hooks.

    In this order: remove wrappers (AveragedModel, too), gather sharded parameters, apply the remedies of the checks,
    set gradients to None, move to ``device``. What the module computes in eval mode does not change.

    Args:
        model: As it came out of training, wrapped or not. Unchanged unless ``inplace``. Under ``fully_shard`` every
            rank must call this, as the parameters are gathered.
        scaler: Its state for each optimizer is cleared, always in place.
        optimizer: Its gradients are set to None, always in place.
        device: The device of the module to export.
        inplace: Change ``model`` itself instead of a copy. Nothing sharded is gathered in place.
        example_inputs: If given, the outputs of the prepared module are compared with those of the model before it is
            moved to ``device``: bitwise if two equal calls of the model are bitwise equal.
        example_kwargs: Keyword inputs for that comparison.

    Raises:
        CannotCopy: The module has no faithful copy.
        OutputChanged: The outputs differ.
    """
    inner, wrappers = _unwrapped(model)
    actions: list[str] = []
    state: Mapping[str, Any] = {} if scaler is None else {"scaler": scaler}
    sharded = bool(sharding_modules(inner) or sharded_parameters(inner))
    call = None if example_inputs is None else (example_inputs, example_kwargs or {})
    before = [] if call is None else [EagerReference(model).output(call) for _ in range(2)]
    if inplace and sharded:
        raise CannotCopy("", "gathering its sharded parameters needs a copy", "Pass `inplace=False`.")
    if wrappers:
        actions.append(f"Removed {', '.join(wrappers)} around the model.")
    if inplace:
        subject = Subject(inner, training_state=state)
    else:
        copied, corrections = _copy(inner, sharded)
        actions += corrections
        held = sum(parameter.grad is not None for parameter in inner.parameters())
        if held:
            actions.append(f"Did not copy the gradients of {counted(held, 'parameter')}.")
        subject = Subject(copied, training_state=state)
    actions += apply_remedies(subject)
    if optimizer is not None:
        optimizer.zero_grad(set_to_none=True)
        actions.append("Called `optimizer.zero_grad(set_to_none=True)`.")
    if call is not None:
        _require_equal(before, EagerReference(subject.model).output(call))
    if device is not None:
        subject.model.to(device)
        actions.append(f"Moved the model to {torch.device(device)}.")
    return Prepared(subject.model, actions)


def _require_equal(before: list[Any], after: Any) -> None:
    """Raise OutputChanged if the outputs differ; bitwise if two equal calls of the model are bitwise equal."""
    repeated, now = compare(before[0], before[1], Tolerance()), compare(before[0], after, Tolerance())
    if not (now.bitwise if repeated.bitwise else now.agree):
        raise OutputChanged(
            f"The outputs of the prepared module differ from the model: {now.problem or 'not bitwise equal'}"
        )


def _unwrapped(model: nn.Module) -> tuple[nn.Module, list[str]]:
    """Unwrap an AveragedModel, too: its module has the averaged weights under the names of training."""
    inner, wrappers = unwrap(model)
    while isinstance(inner, AveragedModel):
        averaged, more = unwrap(inner.module)
        inner, wrappers = averaged, [*wrappers, type(inner).__name__, *more]
    return inner, wrappers


def _copy(inner: nn.Module, sharded: bool) -> tuple[nn.Module, list[str]]:
    if not sharded:
        return faithful_copy(inner)
    if any(is_fsdp1(module) for module in inner.modules()):
        fix = "Load `get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))` into a plain module."
        raise CannotCopy("", "the parameters of FullyShardedDataParallel are flat", fix)
    return whole_copy(inner), ["Gathered the sharded parameters in a copy."]
