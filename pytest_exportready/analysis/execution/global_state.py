"""Restore what a model's forward may change for the whole process: random states, modes and defaults."""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from pytest_exportready.analysis.torch_internals.cuda import random_states_kept


@contextmanager
def global_state_kept() -> Iterator[None]:
    """Restore random states of torch, Python and NumPy, gradient mode, default dtype, determinism and threads.

    Within the block warnings are silent: what matters in them becomes a finding.
    """
    dtype, grad, threads = torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_num_threads()
    deterministic, warn_only = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    python = random.getstate()
    numpy = sys.modules.get("numpy")
    drawn = numpy.random.get_state() if numpy is not None else None
    with random_states_kept(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            torch.set_grad_enabled(grad)
            if torch.get_num_threads() != threads:
                torch.set_num_threads(threads)
            torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
            random.setstate(python)
            if numpy is not None:
                numpy.random.set_state(drawn)
