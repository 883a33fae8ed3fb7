"""Find what a forward reads in addition to its inputs and state: the clock, its rank, the environment, a seed."""

from __future__ import annotations

import os
import random
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

import torch

from pytest_exportready.analysis.source.user_frames import is_users

INPUTS_ONLY = "Make `forward` depend on inputs, parameters and buffers only: pass what it reads as an input."
_CLOCK, _SEED, _BYTES = "reads the clock", "sets or reads the random seed", "draws random bytes"
_STANDARD = os.path.dirname(os.__file__) + os.sep
_DECORATORS = ("torch/_compile.py", "torch/_dynamo/eval_frame.py")


@dataclass(frozen=True)
class AmbientRead:
    """One read, at a line of user code."""

    words: str  # what forward does, such as ``reads the clock``
    file: str
    line: int


def ambient_reads(run: Callable[[], Any]) -> list[AmbientRead]:
    """Return the reads of ``run()`` in order, each kind once, at the line of user code that makes it."""
    found: dict[str, AmbientRead] = {}
    functions, codes = _builtins(), _codes()

    def note(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call":
            words, caller = functions.get(_key(called), "") or _of_object(called), frame
        elif event == "call" and frame.f_back is not None:
            words, caller = codes.get(frame.f_code, ""), frame.f_back
        else:
            return
        if words and words not in found:
            user = _user_frame(caller)
            if user is not None:
                found[words] = AmbientRead(words, user.f_code.co_filename, user.f_lineno)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return list(found.values())


def _key(called: Any) -> tuple[object, str]:
    return getattr(called, "__module__", None), getattr(called, "__name__", "")


def _builtins() -> dict[tuple[object, str], str]:
    modes = (torch.is_grad_enabled, torch.is_inference_mode_enabled)
    clocks = (time.time, time.time_ns, time.perf_counter, time.perf_counter_ns, time.monotonic, time.monotonic_ns)
    return {
        **{_key(mode): "reads the grad mode" for mode in modes},
        **{_key(clock): _CLOCK for clock in clocks},
        ("posix", "urandom"): _BYTES,
    }


def _codes() -> dict[CodeType, str]:
    ranks = (torch.distributed.get_rank, torch.distributed.get_world_size) if torch.distributed.is_available() else ()
    functions: dict[Any, str] = {
        **dict.fromkeys(ranks, "reads the rank or the number of ranks"),
        type(os.environ).__getitem__: "reads the environment",
        torch.manual_seed: _SEED,
        torch.initial_seed: _SEED,
        uuid.uuid4: _BYTES,
    }
    return {getattr(function, "__wrapped__", function).__code__: words for function, words in functions.items()}


def _of_object(called: Any) -> str:
    """Return what a C method reads: of the classes of datetime, and of the generators of Python and NumPy."""
    owner, name = getattr(called, "__self__", None), getattr(called, "__name__", "")
    if isinstance(owner, type) and owner.__module__ == "datetime" and name in ("now", "utcnow", "today"):
        return _CLOCK
    drawn = isinstance(owner, random.Random) or type(owner).__module__.startswith("numpy.random")
    return "draws random numbers of Python or NumPy" if drawn and name != "getstate" else ""


def _user_frame(frame: FrameType | None) -> FrameType | None:
    """Return the frame of user code that reads, directly or through Python's library; None for a read by torch."""
    while frame is not None and not is_users(file := frame.f_code.co_filename):
        standard = file.startswith((_STANDARD, "<frozen ")) and "site-packages" not in file
        if not standard and not file.replace(os.sep, "/").endswith(_DECORATORS):
            return None
        frame = frame.f_back
    return frame
