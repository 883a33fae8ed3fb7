"""One call of a module or program: positional and keyword arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from pytest_exportready.analysis.execution.machine_faults import machine_faults_raised
from pytest_exportready.analysis.execution.pytree import distinct

Call = tuple[tuple[Any, ...], Mapping[str, Any]]


def run(module: Any, calls: Iterable[Call]) -> list[Any]:
    """Return the outputs of ``module`` for each call, without gradients.

    Inputs and outputs are copied: a cache that one call returns may be overwritten by the next.

    Raises:
        MachineFault: The machine, not the module, is at fault.
    """
    outputs = []
    with torch.no_grad(), machine_faults_raised():
        for args, kwargs in calls:
            own_args, own_kwargs = distinct((tuple(args), dict(kwargs)))
            outputs.append(distinct(module(*own_args, **own_kwargs)))
    return outputs
