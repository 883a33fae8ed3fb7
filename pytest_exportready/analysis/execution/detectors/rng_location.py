"""Find the line at which a forward draws random numbers of torch, Python or NumPy."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch

from pytest_exportready.analysis.source.user_frames import is_users


def random_line(run: Callable[[], Any]) -> tuple[str, int]:
    """Return the line of user code at which ``run()`` first changes a global random state; ``("", 0)`` if none does.

    The user's own generators, and uninitialized memory, are not seen.
    """
    found: list[tuple[str, int]] = []
    start = _states()
    before = sys.gettrace()

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        return None if found or not is_users(frame.f_code.co_filename) else _Lines(frame).step

    class _Lines:
        def __init__(self, frame: FrameType) -> None:
            self.line = frame.f_lineno

        def step(self, frame: FrameType, event: str, _: Any) -> Any:
            if not found and _states() != start:
                found.append((frame.f_code.co_filename, self.line))
            self.line = frame.f_lineno
            return None if found else self.step

    sys.settrace(enter)
    try:
        run()
    finally:
        sys.settrace(before)
    return found[0] if found else ("", 0)


def _states() -> tuple[Any, ...]:
    numpy = sys.modules.get("numpy")
    drawn = numpy.random.get_state() if numpy is not None else ("", b"")
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    torches = tuple(bytes(state.tolist()) for state in [torch.get_rng_state(), *cuda])
    return torches, random.getstate(), bytes(drawn[1]), drawn[2:]
