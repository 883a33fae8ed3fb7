"""prepare_for_export: the remedies of the checks, in order, on a copy or in place."""

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

__all__ = ["AnswerChanged", "CannotCopy", "prepare_for_export"]


class AnswerChanged(RuntimeError):
    """The prepared module answers otherwise than the model: a remedy changed what it must not."""


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
    """The module to export: unwrapped, whole, in eval mode, without gradients and backward hooks.

    In this order: wrappers off (an AveragedModel, too), sharded parameters gathered, the remedies of the checks by
    name, gradients to None, ``device``. What the module computes in eval mode does not change.

    model: as it came out of training, wrapped or not. Untouched unless ``inplace``. Under ``fully_shard`` every rank
    calls this at once, for the parameters are gathered.
    scaler: its state for each optimizer is cleared, always in place (a scaler belongs to the training loop).
    optimizer: its gradients are set to None, always in place.
    device: where the module to export shall be.
    example_inputs, example_kwargs: when given, the answer of the prepared module must be that of the model, to the bit
    if two equal calls of the model are; this is before ``device`` is looked at.
    Raises CannotCopy when there is no faithful copy (``inplace=True`` needs none, but nothing sharded is gathered in
    place), and AnswerChanged when the comparison fails.
    """
    inner, peeled = _unwrapped(model)
    actions: list[str] = []
    state: Mapping[str, Any] = {} if scaler is None else {"scaler": scaler}
    sharded = bool(sharding_modules(inner) or sharded_parameters(inner))
    call = None if example_inputs is None else (example_inputs, example_kwargs or {})
    before = [] if call is None else [EagerReference(model).output(call) for _ in range(2)]
    if inplace and sharded:
        raise CannotCopy("", "its parameters are sharded: gathering them needs a copy", "inplace=False")
    if peeled:
        actions.append(f"took {', '.join(peeled)} off the root")
    if inplace:
        subject = Subject(inner, training_state=state)
    else:
        twin, corrections = _copy(inner, sharded)
        actions += corrections
        held = sum(parameter.grad is not None for parameter in inner.parameters())
        if held:
            actions.append(f"left the gradients of {counted(held, 'parameter')} behind: a copy carries none")
        subject = Subject(twin, training_state=state)
    actions += apply_remedies(subject)
    if optimizer is not None:
        optimizer.zero_grad(set_to_none=True)
        actions.append("optimizer.zero_grad(set_to_none=True)")
    if call is not None:
        _require_equal(before, EagerReference(subject.model).output(call))
    if device is not None:
        subject.model.to(device)
        actions.append(f"moved to {torch.device(device)}")
    return Prepared(subject.model, actions)


def _require_equal(before: list[Any], after: Any) -> None:
    """To the bit, if two equal calls of the model itself are."""
    repeated, now = compare(before[0], before[1], Tolerance()), compare(before[0], after, Tolerance())
    if not (now.bitwise if repeated.bitwise else now.agree):
        raise AnswerChanged(f"the prepared module answers otherwise than the model: {now.problem or 'not to the bit'}")


def _unwrapped(model: nn.Module) -> tuple[nn.Module, list[str]]:
    """``unwrap``, and an AveragedModel besides: its module holds the averaged weights under the names of training."""
    inner, peeled = unwrap(model)
    while isinstance(inner, AveragedModel):
        averaged, more = unwrap(inner.module)
        inner, peeled = averaged, [*peeled, type(inner).__name__, *more]
    return inner, peeled


def _copy(inner: nn.Module, sharded: bool) -> tuple[nn.Module, list[str]]:
    if not sharded:
        return faithful_copy(inner)
    if any(is_fsdp1(module) for module in inner.modules()):
        fix = "load get_model_state_dict(model, options=StateDictOptions(full_state_dict=True)) into a plain module"
        raise CannotCopy("", "it is under FullyShardedDataParallel, whose parameters are flat", fix)
    return whole_copy(inner), ["gathered the sharded parameters into a whole copy"]
