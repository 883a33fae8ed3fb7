"""Run a program on another device, if this machine has one."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.pytree import distinct, map_tensors
from pytest_exportready.analysis.program.program_copy import program_copy


@cache
def is_available(device: torch.device) -> bool:
    """Return whether this machine has ``device`` and this build of torch can use it."""
    if device.type == "meta":
        return False
    try:
        torch.empty(1, device=device)
    except (AssertionError, NotImplementedError, RuntimeError):
        return False
    return True


def output_on(program: ExportedProgram, call: Call, device: torch.device) -> Any:
    """Return the output on ``device``, moved to the CPU, of a ``program`` that names no device.

    The weights are copied to ``device``; ``program`` keeps its own.
    """
    with torch.no_grad():
        module: nn.Module = program_copy(program).module().to(device)
        args, kwargs = map_tensors(lambda t: t.to(device), distinct((tuple(call[0]), dict(call[1]))))
        return map_tensors(lambda t: t.cpu(), module(*args, **kwargs))
