"""Truth: what the trained eager module answers, before any wrapping or preparation. Every stage is held
against it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from pytest_exportready.analysis.execution.pytree import distinct
from pytest_exportready.analysis.module.snapshot import Change, Preserved
from pytest_exportready.analysis.module.wrappers import unwrap

if TYPE_CHECKING:
    from pytest_exportready.analysis.execution.gradients import Gradients

Call = tuple[tuple[Any, ...], Mapping[str, Any]]


class Truth:
    """The user's own module, under its training wrappers, in eval mode and without gradients.

    Each method starts from the module as trained and leaves it so; inputs are copied.
    """

    def __init__(self, model: nn.Module) -> None:
        self.module = unwrap(model)[0]
        self.error: BaseException | None = None

    @cached_property
    def _trained(self) -> Preserved:
        return Preserved(self.module)

    def answer(self, call: Call) -> Any:
        return self.sequence([call])[0]

    def gradients(self, call: Call, loss: Callable[[Any], Any] | None) -> Gradients:
        """What backward gives in eval mode, as ``proof.gradients``."""
        from pytest_exportready.analysis.execution.gradients import gradients

        trained = self._trained
        try:
            self.module.eval()
            return gradients(self.module, dict(self.module.named_parameters()), call, loss)
        finally:
            trained.restore()

    def shaken(self, calls: list[Call]) -> tuple[dict[str, torch.Tensor], list[Any]]:
        """The values of parameters and buffers after ``proof.shaken`` on the first call, and answers under them."""
        from pytest_exportready.analysis.execution.perturbed_weights import shake

        trained = self._trained
        try:
            self.module.eval()
            shake(self.module, calls[0])
            named = [*self.module.named_parameters(), *self.module.named_buffers()]
            return {name: tensor.detach().clone() for name, tensor in named}, run(self.module, calls)
        finally:
            trained.restore()

    def answer_with(self, where: str, value: Any, call: Call) -> Any:
        """Answer to ``call`` of the module with its Python attribute ``where`` set to ``value``.

        Raises what following ``where`` raises when it does not lead to an attribute or an entry of a dict.
        """
        trained = self._trained
        try:
            self.module.eval()
            *way, last = where.split(".")
            owner: Any = self.module
            for part in way:
                owner = owner[part] if isinstance(owner, dict) else getattr(owner, part)
            if isinstance(owner, dict):
                owner[last] = value
            else:
                setattr(owner, last, value)
            return run(self.module, [call])[0]
        finally:
            trained.restore()

    def sequence(self, calls: Iterable[Call]) -> list[Any]:
        """Answers to ``calls``, one after the other, each on the state that the one before left."""
        return self.observe(calls, changes=False)[0]

    def observe(self, calls: Iterable[Call], *, changes: bool = True) -> tuple[list[Any], list[Change]]:
        """As ``sequence``, and what the module had changed of itself by the end."""
        trained = self._trained
        try:
            self.module.eval()
            answers = run(self.module, calls)
            found = trained.changes() if changes else []
            return answers, [change for change in found if not change.where.endswith("training")]
        finally:
            trained.restore()


def run(module: Any, calls: Iterable[Call]) -> list[Any]:
    """Outputs of ``module`` on copies of the inputs, copied too: a cache handed out may be written by the
    next call."""
    answers = []
    with torch.no_grad():
        for args, kwargs in calls:
            own_args, own_kwargs = distinct((tuple(args), dict(kwargs)))
            answers.append(distinct(module(*own_args, **own_kwargs)))
    return answers
