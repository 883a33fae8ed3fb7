"""What training mode changes in a forward pass, found by running it in both modes."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from pytest_exportready.analysis.execution.call import Call, run
from pytest_exportready.analysis.execution.compare import Tolerance, compare
from pytest_exportready.analysis.execution.global_state import global_state_kept
from pytest_exportready.analysis.module.snapshot import preserved


@dataclass(frozen=True)
class _Pass:
    """One forward pass: its answer, the names of what it wrote, where it left the random numbers."""

    answer: Any
    written: frozenset[str]
    drawn: tuple[bytes, object]


def mode_shows(model: nn.Module, call: Call) -> bool | None:
    """Whether ``model`` as it is answers otherwise than in eval mode, writes other state, or draws random numbers that
    eval mode does not: what is random may agree by chance. None where it does not run in both modes. ``model`` is left
    as it was.
    """
    try:
        given, evaluated = _pass(model, call, evaluates=False), _pass(model, call, evaluates=True)
    except Exception:
        return None  # stage eager tells why it does not run
    if (given.written, given.drawn) != (evaluated.written, evaluated.drawn):
        return True
    return not compare(given.answer, evaluated.answer, Tolerance()).agree


def _pass(model: nn.Module, call: Call, evaluates: bool) -> _Pass:
    with preserved(model) as before, global_state_kept():
        torch.manual_seed(0)
        random.seed(0)
        (answer,) = run(model.eval() if evaluates else model, [call])
        written = frozenset(c.where for c in before.changes() if c.where.rpartition(".")[2] != "training")
        return _Pass(answer, written, (bytes(torch.get_rng_state().tolist()), random.getstate()))
