"""End the session or one case, with its reports, where otherwise the process would end without them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def reported_on_sigterm() -> Iterator[None]:
    """End the session on SIGTERM as on Ctrl-C, with reports; CI cancels a job by SIGTERM.

    A handler of the user stays in place.
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
    """Raise SystemExit where a case calls ``os._exit``, which would end the session, possibly with status 0.

    Forked children and other threads, such as those of a timeout, still end their process.
    """
    exit_process, process, thread = os._exit, os.getpid(), threading.get_ident()

    def raise_exit(status: int) -> None:
        if os.getpid() != process or threading.get_ident() != thread:
            exit_process(status)
        raise SystemExit(f"os._exit({status})")

    os._exit = raise_exit  # type: ignore[assignment]
    try:
        yield
    finally:
        os._exit = exit_process
