"""Compare a forward pass in training mode with one in eval mode."""

from __future__ import annotations

import random
from collections.abc import Callable
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
    """What one forward pass did."""

    output: Any
    written: frozenset[str]  # names of state
    random_states: tuple[bytes, object]  # after it


def mode_shows(model: nn.Module, call: Call) -> bool | None:
    """Return whether ``model`` in its present mode differs from eval mode in outputs, written state or random numbers.

    Random numbers count because random outputs may agree by chance. None if it does not run in both modes. ``model`` is
    restored.
    """
    try:
        present, evaluated = _pass(model, call), _pass(model, call, nn.Module.eval)
    except Exception:
        return None  # the stage eager reports why it does not run
    if (present.written, present.random_states) != (evaluated.written, evaluated.random_states):
        return True
    return not compare(present.output, evaluated.output, Tolerance()).agree


def _pass(model: nn.Module, call: Call, prepare: Callable[[nn.Module], object] = lambda model: None) -> _Pass:
    with preserved(model) as before, global_state_kept():
        torch.manual_seed(0)
        random.seed(0)
        prepare(model)
        (output,) = run(model, [call])
        written = frozenset(c.where for c in before.changes() if c.where.rpartition(".")[2] != "training")
        return _Pass(output, written, (bytes(torch.get_rng_state().tolist()), random.getstate()))
