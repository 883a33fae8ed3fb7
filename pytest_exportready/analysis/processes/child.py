"""Run work in a forked child, where a crash of native code hurts nobody."""

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
_WORDS = 4000  # characters of an error that come across
_FRAME = re.compile(r'^  File "(.+)", line (\d+) in (\S+)$', re.MULTILINE)
_MARGIN = 30.0  # seconds for a child that is late to say where it is


class ProcessDied(Exception):
    """The child ended without a result; the message says how, and where it was."""


class TookTooLong(ProcessDied):
    """It was ended for its time, which may be the machine's fault as well as the work's."""


def in_child(work: Callable[[], Any], seconds: float) -> Any:
    """Run ``work`` in a forked child, on one thread, and end whatever it started.

    Returns:
        What ``work`` returns, which has to be JSON data.

    Raises:
        TookTooLong: After ``seconds``.
        ProcessDied: When the child crashes or ends without a word.
        RuntimeError: When ``work`` raises, with the name and the text of its error.
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
                heard = bool(selector.select(seconds + _MARGIN))
            ended = heard and pipe.read(1) == _ENDED
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
        stacks.seek(0)
        stack = stacks.read().decode(errors="replace")
        reply.seek(0)
        said: dict[str, Any] = json.loads(reply.read()) if ended else {}
    if "raised" in said:
        raise RuntimeError(said["raised"])
    if ended:
        return said["returned"]
    if not heard or stack.startswith("Timeout"):
        raise TookTooLong(f"it took longer than {seconds:.0f} s{_place(stack)}")
    raise ProcessDied(f"the process ended with {ending(os.waitstatus_to_exitcode(status))}{_place(stack)}")


def ending(code: int) -> str:
    """An exit code of this process's child in words."""
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _forked(run: Callable[[], None]) -> int:
    """The child's pid, which is its group's, too.

    The collector leaves what is here alone in the child: a gloo group among the garbage would be destroyed there, and
    wait for its threads, which exist here only.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # fork with threads: the child starts none
            child = os.fork()
        if child == 0:
            gc.freeze()
            gc.enable()
            os.setpgid(0, 0)
            run()
        with suppress(OSError):  # the child did, or is gone
            os.setpgid(child, child)
        return child
    finally:
        if collects:
            gc.enable()


def _work(work: Callable[[], Any], writing: int, seconds: float, stacks: IO[bytes], reply: IO[bytes]) -> None:
    """Does not return."""
    try:
        reply.write(_outcome(work, seconds, stacks).encode())
        reply.flush()
        os.write(writing, _ENDED)
    finally:
        os._exit(0)


def _outcome(work: Callable[[], Any], seconds: float, stacks: IO[bytes]) -> str:
    """As JSON, what it returned or raised."""
    try:
        import torch

        faulthandler.enable(stacks)
        faulthandler.dump_traceback_later(seconds, exit=True, file=stacks)
        torch.set_num_threads(1)  # the threads of the parent's pool do not exist here
        return json.dumps({"returned": work()})
    except BaseException as error:
        return json.dumps({"raised": f"{type(error).__name__}: {error}"[:_WORDS]})


def _place(stack: str) -> str:
    """Where a stack that faulthandler wrote ends, innermost first; empty if it wrote none."""
    frames = [f"{Path(file).name}:{line} ({name})" for file, line, name in _FRAME.findall(stack)[:3]]
    return f", in {' < '.join(frames)}" if frames else ""
