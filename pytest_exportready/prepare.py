"""prepare_for_export: the remedies of the checks, in order, on a copy or in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import nn

from pytest_exportready.check import Subject, all_checks
from pytest_exportready.module.copying import CannotCopy, faithful_copy
from pytest_exportready.module.wrappers import unwrap
from pytest_exportready.names import counted

if TYPE_CHECKING:
    from torch.amp import GradScaler
    from torch.optim import Optimizer

__all__ = ["CannotCopy", "Prepared", "prepare", "prepare_for_export"]

UNWRAPS = "ddp_hooks_emptied"


class Prepared(NamedTuple):
    """module: ready to export, in eval mode. actions: what was done, a line each."""

    module: nn.Module
    actions: list[str]


def prepare(subject: Subject) -> list[str]:
    """Run every check's remedy on ``subject`` in place, unwrapping first; returns what was done.

    A remedy never changes what the model computes in eval mode.
    """
    checks = all_checks()
    order = sorted(checks, key=lambda name: (name != UNWRAPS, name))
    remedies = [remedy for name in order if (remedy := checks[name].remedy) is not None]
    return [action for remedy in remedies for action in remedy(subject)]


def prepare_for_export(
    model: nn.Module,
    *,
    scaler: GradScaler | None = None,
    optimizer: Optimizer | None = None,
    inplace: bool = False,
) -> Prepared:
    """The module to export: unwrapped, in eval mode, without gradients and backward hooks.

    model: as it came out of training, wrapped or not. Untouched unless ``inplace``.
    scaler: its state for each optimizer is cleared, always in place (a scaler belongs to the training loop).
    optimizer: its gradients are set to None, always in place.
    Raises CannotCopy when there is no faithful copy; ``inplace=True`` needs none.
    """
    inner, peeled = unwrap(model)
    actions: list[str] = []
    state: Mapping[str, Any] = {} if scaler is None else {"scaler": scaler}
    if inplace:
        subject = Subject(model, training_state=state)
    else:
        if peeled:
            actions.append(f"took {', '.join(peeled)} off the root")
        twin, corrections = faithful_copy(inner)
        actions += corrections
        held = sum(parameter.grad is not None for parameter in inner.parameters())
        if held:
            actions.append(f"left the gradients of {counted(held, 'parameter')} behind: a copy carries none")
        subject = Subject(twin, training_state=state)
    actions += prepare(subject)
    if optimizer is not None:
        optimizer.zero_grad(set_to_none=True)
        actions.append("optimizer.zero_grad(set_to_none=True)")
    return Prepared(subject.model, actions)
