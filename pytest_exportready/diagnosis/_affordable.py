"""Whether a failed export may be tried again in another form.

A trace in this process cannot be stopped, so its cost is estimated from one call of the module: a trace takes 2 to 4 ms
per operator (torch 2.13 to 2.15, one core), and code that runs on real data takes as long as the call.
"""

from __future__ import annotations

import time
from typing import Any

from pytest_exportready.analysis.execution.call import run
from pytest_exportready.analysis.execution.global_state import global_state_kept
from pytest_exportready.analysis.module.snapshot import preserved
from pytest_exportready.analysis.module.wrappers import inner_wrappers
from pytest_exportready.analysis.ranks.check_ranks import several_ranks
from pytest_exportready.analysis.torch_internals.tensors import each_operator
from pytest_exportready.diagnosis._diagnosis import Failure
from pytest_exportready.diagnosis._without_collectives import without_collectives

PARAMETERS = 50_000_000
OPERATORS = 3_000  # about 10 s of tracing
SECONDS = 2.0  # of one call


class _TooMuch(Exception):
    pass


def affordable(failure: Failure) -> bool:
    """Return whether the module runs, and stays below the limits of parameters, operators and seconds per call.

    The call that measures stops at the limit. In one of several ranks also False for a module that runs a collective or
    contains a wrapper that may: the other ranks do not run at the same time.
    """
    module = failure.module
    if sum(parameter.numel() for parameter in module.parameters()) > PARAMETERS:
        return False
    if several_ranks() and inner_wrappers(module):
        return False
    left, until = OPERATORS, time.monotonic() + SECONDS

    def count(operator: Any, args: Any, kwargs: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0 or time.monotonic() > until:
            raise _TooMuch
        return operator(*args, **kwargs)

    try:
        with preserved(module), global_state_kept(), without_collectives(), each_operator(count):
            run(module, [failure.trial.call])
    except Exception:
        return False
    return time.monotonic() <= until
