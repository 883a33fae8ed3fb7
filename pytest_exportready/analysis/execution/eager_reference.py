"""The trained eager module, without training wrappers and before any preparation: stages compare with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from typing import Any
from weakref import ref

import torch
from torch import nn

from pytest_exportready.analysis.execution.call import Call, run
from pytest_exportready.analysis.execution.compare import has_nan
from pytest_exportready.analysis.execution.machine_faults import MachineFault
from pytest_exportready.analysis.execution.pytree import map_tensors, tensors
from pytest_exportready.analysis.module.copying import copy_on_host
from pytest_exportready.analysis.module.snapshot import Change, Snapshot
from pytest_exportready.analysis.module.wrappers import unwrap

_OF_DEVICE = re.compile(r"\b(?:cpu|cuda|device|backend|triton)\b|not implemented for", re.IGNORECASE)


class EagerReference:
    """The user's own module, under its training wrappers, in eval mode and without gradients.

    Each method starts from the module as trained and restores it; inputs are copied.

    On a GPU an index out of range raises no exception: it ends CUDA in this process. Calls are therefore made on a
    copy of the module on the CPU first, which raises.
    """

    def __init__(self, model: nn.Module) -> None:
        self.module = unwrap(model)[0]
        self._accepted_on_host: list[list[ref[torch.Tensor]]] = []

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
        calls = list(calls)
        self.try_on_host(calls)
        with self.in_eval_mode():
            return run(self.module, calls)

    def try_on_host(self, calls: Sequence[Call]) -> None:
        """Call a copy on the CPU if the module is on a GPU.

        Raises:
            Exception: The copy raised it, and it does not depend on the device.
        """
        if not any(tensor.is_cuda for tensor in chain(self.module.parameters(), self.module.buffers())):
            return
        given = [tensor for call in calls for tensor in tensors(call)]
        if self._on_host is None or any(_same(known, given) for known in self._accepted_on_host):
            return
        try:
            self._on_host.outputs(map_tensors(lambda tensor: tensor.cpu(), list(calls)))
        except MachineFault:
            return  # the CPU has less memory than the GPU
        except Exception as error:
            if not isinstance(error, NotImplementedError) and not _OF_DEVICE.search(str(error)):
                raise
        self._accepted_on_host.append([ref(tensor) for tensor in given])

    @cached_property
    def _on_host(self) -> EagerReference | None:
        """The module on the CPU; None if it cannot be copied."""
        try:
            with self.in_eval_mode():
                return EagerReference(copy_on_host(self.module))
        except Exception:
            return None

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
        calls = list(calls)
        self.try_on_host(calls)
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


def _same(known: Sequence[ref[torch.Tensor]], given: Sequence[torch.Tensor]) -> bool:
    return len(known) == len(given) and all(one() is other for one, other in zip(known, given, strict=True))
