"""What would end the process, and take every report along, ends the session, or one case."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def reported_on_sigterm() -> Iterator[None]:
    """SIGTERM, with which CI cancels a job, ends the session as Ctrl-C does, reports written.

    Left alone where the user handles it.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt("terminated by SIGTERM")

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def exit_is_raised() -> Iterator[None]:
    """``os._exit`` of a case, in its own thread, is SystemExit here: it would end the session, with 0 even as if green.

    Forked children, and threads that watch, end their process by it as ever.
    """
    leave, process, thread = os._exit, os.getpid(), threading.get_ident()

    def refused(status: int) -> None:
        if os.getpid() != process or threading.get_ident() != thread:
            leave(status)
        raise SystemExit(f"os._exit({status})")

    os._exit = refused  # type: ignore[assignment]
    try:
        yield
    finally:
        os._exit = leave
