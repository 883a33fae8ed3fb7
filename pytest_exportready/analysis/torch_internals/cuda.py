"""CUDA and forked processes: once a process has asked for its devices, CUDA cannot be used in a child that it forks."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import torch


def forks_can_use_cuda() -> bool:
    """Return whether a child of this process can use CUDA as this process can, which a trial child reports.

    After ``torch.cuda.is_available()``, which torch.export calls, it cannot, although CUDA is not initialized. What
    the child asks is private. True without devices.
    """
    if not torch.backends.cuda.is_built():  # type: ignore[no-untyped-call]
        return True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about fork with threads: the child uses none
        child = os.fork()
    if child == 0:
        status = 1
        try:
            status = int(torch.cuda._is_in_bad_fork() and torch.cuda.device_count() > 0)
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0


def why_cuda_is_lost() -> str:
    """Return the error that ended CUDA in this process, such as an index out of range in a kernel; empty if it works.

    Such an error is reported by every later call of CUDA, and only a new process can use CUDA again.
    """
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return ""
    try:
        for index in range(torch.cuda.device_count()):
            if torch.cuda.memory_reserved(index) or index == torch.cuda.current_device():
                torch.cuda.synchronize(index)
    except RuntimeError as error:
        return str(error).partition("\n")[0]
    return ""


@contextmanager
def random_states_kept() -> Iterator[None]:
    """Restore torch's random states, those of GPUs if this process has started CUDA."""
    states = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    with torch.random.fork_rng(devices=()):
        try:
            yield
        finally:
            if states and not why_cuda_is_lost():
                torch.cuda.set_rng_state_all(states)


@contextmanager
def cuda_unasked() -> Iterator[None]:
    """Let a CUDA build of torch assume that there are devices, so that work on the CPU does not ask for them."""
    with mock.patch.object(torch.cuda, "is_available", torch.backends.cuda.is_built):
        yield


@contextmanager
def cuda_hidden() -> Iterator[None]:
    """Let torch see no CUDA devices: work on the CPU then does not fail in a child that cannot use them."""
    no = lambda: False  # noqa: E731
    with mock.patch.multiple(torch.cuda, is_available=no, is_initialized=no, device_count=lambda: 0):
        yield
