"""The trained eager module, without training wrappers and before any preparation: stages compare with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from torch import nn

from pytest_exportready.analysis.execution.call import Call, run
from pytest_exportready.analysis.execution.compare import has_nan
from pytest_exportready.analysis.module.snapshot import Change, Snapshot
from pytest_exportready.analysis.module.wrappers import unwrap


class EagerReference:
    """The user's own module, under its training wrappers, in eval mode and without gradients.

    Each method starts from the module as trained and restores it; inputs are copied.
    """

    def __init__(self, model: nn.Module) -> None:
        self.module = unwrap(model)[0]

    @cached_property
    def _trained(self) -> Snapshot:
        return Snapshot(self.module)

    @contextmanager
    def in_eval_mode(self) -> Iterator[Snapshot]:
        """Put the module in eval mode; restore its mode and state at the end."""
        trained = self._trained
        try:
            self.module.eval()
            yield trained
        finally:
            trained.restore()

    def output(self, call: Call) -> Any:
        """Return the output for one call."""
        return self.outputs([call])[0]

    def outputs(self, calls: Iterable[Call]) -> list[Any]:
        """Return the outputs for ``calls``, each computed on the state that the call before it left."""
        with self.in_eval_mode():
            return run(self.module, calls)

    def first_accepted(self, calls: Iterable[Call]) -> tuple[Call, Any] | None:
        """Return the first of ``calls`` on which the module runs and returns no NaN, with its output."""
        for call in calls:
            try:
                output = self.output(call)
            except Exception:
                continue
            if not has_nan(output):
                return call, output
        return None

    def observe(self, calls: Iterable[Call]) -> tuple[list[Any], list[Change]]:
        """Return what ``outputs`` returns, and what the module changed of its own state."""
        with self.in_eval_mode() as trained:
            outputs = run(self.module, calls)
            return outputs, [change for change in trained.changes() if not change.where.endswith("training")]

    def output_with(self, where: str, value: Any, call: Call) -> Any:
        """Return the output for ``call`` with the module's Python attribute ``where`` set to ``value``.

        Raises:
            AttributeError, KeyError: ``where`` is not an attribute or an entry of a dict.
        """
        with self.in_eval_mode():
            *path, last = where.split(".")
            owner: Any = self.module
            for part in path:
                owner = owner[part] if isinstance(owner, dict) else getattr(owner, part)
            if isinstance(owner, dict):
                owner[last] = value
            else:
                setattr(owner, last, value)
            return run(self.module, [call])[0]
