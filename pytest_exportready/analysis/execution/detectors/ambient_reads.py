"""What a forward asks besides inputs and state: the clock, its rank, the environment, the grad mode, a seed."""

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

CLOCK, SEED = "the clock", "or sets a random state"
INPUTS_ONLY = "let forward depend on inputs, parameters and buffers only: give it what it asks for as an input"
_STANDARD = os.path.dirname(os.__file__) + os.sep
_DECORATORS = ("torch/_compile.py", "torch/_dynamo/eval_frame.py")


@dataclass(frozen=True)
class OutsideRead:
    """words: what is asked, such as ``the rank``. file, line: where the user's code does."""

    words: str
    file: str
    line: int


def outside_reads(run: Callable[[], Any]) -> list[OutsideRead]:
    """Each kind once, in the order in which ``run()`` asks, at the line of the user's that calls for it."""
    found: dict[str, OutsideRead] = {}
    functions, codes = _builtins(), _codes()

    def note(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call":
            words, caller = functions.get(_key(called), "") or _of_object(called), frame
        elif event == "call" and frame.f_back is not None:
            words, caller = codes.get(frame.f_code, ""), frame.f_back
        else:
            return
        if words and words not in found:
            place = _users(caller)
            if place is not None:
                found[words] = OutsideRead(words, place.f_code.co_filename, place.f_lineno)

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
    told = {_key(mode): "the grad mode" for mode in modes} | {_key(clock): CLOCK for clock in clocks}
    return told | {("posix", "urandom"): "random bytes"}


def _codes() -> dict[CodeType, str]:
    ranks = (torch.distributed.get_rank, torch.distributed.get_world_size) if torch.distributed.is_available() else ()
    told: dict[Any, str] = {
        **dict.fromkeys(ranks, "the rank or the number of ranks"),
        type(os.environ).__getitem__: "the environment",
        torch.manual_seed: SEED,
        torch.initial_seed: SEED,
        uuid.uuid4: "random bytes",
    }
    return {getattr(function, "__wrapped__", function).__code__: words for function, words in told.items()}


def _of_object(called: Any) -> str:
    """Methods in C: of datetime's classes, of Python's generators and numpy's."""
    owner, name = getattr(called, "__self__", None), getattr(called, "__name__", "")
    if isinstance(owner, type) and owner.__module__ == "datetime" and name in ("now", "utcnow", "today"):
        return CLOCK
    drawn = isinstance(owner, random.Random) or type(owner).__module__.startswith("numpy.random")
    return "random numbers of Python's or numpy's" if drawn and name != "getstate" else ""


def _users(frame: FrameType | None) -> FrameType | None:
    """The user's frame that asks, through Python's own library and decorators of torch at the most: what torch asks is
    its own affair.
    """
    while frame is not None and not is_users(file := frame.f_code.co_filename):
        standard = file.startswith((_STANDARD, "<frozen ")) and "site-packages" not in file
        if not standard and not file.replace(os.sep, "/").endswith(_DECORATORS):
            return None
        frame = frame.f_back
    return frame
