"""Run work in a forked child, so that a crash of native code does not end this process."""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import re
import selectors
import signal
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

_ENDED = b"."
_LONGEST_ERROR = 4000  # characters
_FRAME = re.compile(r'^  File "(.+)", line (\d+) in (\S+)$', re.MULTILINE)
_MARGIN = 30.0  # seconds for a child that is late to write its stack


class ProcessDied(Exception):
    """The child ended without a result; the message says how and where."""


class TookTooLong(ProcessDied):
    """The child was killed because of its time; either the work or the machine may be at fault."""


def in_child(work: Callable[[], Any], seconds: float) -> Any:
    """Run ``work`` in a forked child, on one thread, and kill the processes that it leaves behind.

    Returns:
        What ``work`` returns, which must be JSON data.

    Raises:
        TookTooLong: it runs for more than ``seconds``.
        ProcessDied: the child crashes or ends without a result.
        RuntimeError: ``work`` raises; the message has the name and the text of its error.
    """
    reading, writing = os.pipe()
    with (
        os.fdopen(reading, "rb", buffering=0) as pipe,
        tempfile.TemporaryFile() as stacks,
        tempfile.TemporaryFile() as reply,
    ):
        child = _forked(lambda: _work(work, writing, seconds, stacks, reply))
        os.close(writing)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(pipe, selectors.EVENT_READ)
                in_time = bool(selector.select(seconds + _MARGIN))
            ended = in_time and pipe.read(1) == _ENDED
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
        stacks.seek(0)
        stack = stacks.read().decode(errors="replace")
        reply.seek(0)
        outcome: dict[str, Any] = json.loads(reply.read()) if ended else {}
    if "raised" in outcome:
        raise RuntimeError(outcome["raised"])
    if ended:
        return outcome["returned"]
    if not in_time or stack.startswith("Timeout"):
        raise TookTooLong(f"took longer than {seconds:.0f} s{_place(stack)}")
    raise ProcessDied(f"the process ended with {ending(os.waitstatus_to_exitcode(status))}{_place(stack)}")


def ending(code: int) -> str:
    """Describe the exit code of a child."""
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _forked(run: Callable[[], None]) -> int:
    """Fork, and return the pid of the child, which leads a process group of its own.

    In the child the garbage collector ignores the objects of the parent: it would destroy a gloo process group among
    them and wait for its threads, which do not exist in the child.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about fork with threads: the child uses none
            child = os.fork()
        if child == 0:
            gc.freeze()
            gc.enable()
            os.setpgid(0, 0)
            run()
        with suppress(OSError):  # the child did it already, or has ended
            os.setpgid(child, child)
        return child
    finally:
        if collects:
            gc.enable()


def _work(work: Callable[[], Any], writing: int, seconds: float, stacks: IO[bytes], reply: IO[bytes]) -> None:
    """Write the outcome of ``work`` and end the process."""
    try:
        reply.write(_outcome(work, seconds, stacks).encode())
        reply.flush()
        os.write(writing, _ENDED)
    finally:
        os._exit(0)


def _outcome(work: Callable[[], Any], seconds: float, stacks: IO[bytes]) -> str:
    """Return what ``work`` returned or raised as JSON."""
    try:
        import torch

        faulthandler.enable(stacks)
        faulthandler.dump_traceback_later(seconds, exit=True, file=stacks)
        torch.set_num_threads(1)  # the threads of the parent's pool do not exist here
        return json.dumps({"returned": work()})
    except BaseException as error:
        return json.dumps({"raised": f"{type(error).__name__}: {error}"[:_LONGEST_ERROR]})


def _place(stack: str) -> str:
    """Return the last frames of a stack that faulthandler wrote, innermost first; empty if there is none."""
    frames = [f"{Path(file).name}:{line} ({name})" for file, line, name in _FRAME.findall(stack)[:3]]
    return f", in {' < '.join(frames)}" if frames else ""
