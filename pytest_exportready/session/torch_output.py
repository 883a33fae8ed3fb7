"""Keep what torch prints while a case is judged out of the terminal; the reports hold it.

For a failed export torch prints whole graphs on stderr, and warnings through its loggers, where a finding says in a
line what is wrong. It also formats every graph for the logger ``torch.__trace`` as soon as that has a handler, and
pytest 9.2 attaches its capture to every logger that does not propagate.
"""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr
from typing import Any, TextIO

TRACE = "torch.__trace"
_RELAYS = ("logging", "traceback", "warnings")
"""Modules that print for others."""


class _WithoutTorch:
    """``stream`` for everybody but torch, whose output goes to ``kept``."""

    def __init__(self, stream: TextIO, kept: TextIO) -> None:
        self._stream = stream
        self._kept = kept

    def write(self, text: str) -> int:
        return (self._kept if _torch_prints() else self._stream).write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def torch_output_kept() -> Iterator[io.StringIO]:
    """Collect what torch prints on stderr and logs, for a while. With ``TORCH_LOGS``, what it asks for is printed."""
    kept = io.StringIO()
    with ExitStack() as stack:
        stack.enter_context(_without_pytest(logging.getLogger(TRACE)))
        if not os.environ.get("TORCH_LOGS"):
            for logger in _torch_loggers():
                stack.enter_context(_without_pytest(logger))
                stack.enter_context(_streaming_to(kept, logger))
            stack.enter_context(redirect_stderr(_WithoutTorch(sys.stderr, kept)))
        yield kept


def _torch_loggers() -> list[logging.Logger]:
    found = [logger for logger in logging.root.manager.loggerDict.values() if isinstance(logger, logging.Logger)]
    return [logger for logger in found if f"{logger.name}.".startswith("torch.") and logger.name != TRACE]


@contextmanager
def _without_pytest(logger: logging.Logger) -> Iterator[None]:
    """Take pytest's handlers off ``logger``; those of torch and of the user stay."""
    taken = [handler for handler in logger.handlers if type(handler).__module__.startswith("_pytest.")]
    for handler in taken:
        logger.removeHandler(handler)
    try:
        yield
    finally:
        for handler in taken:
            logger.addHandler(handler)


@contextmanager
def _streaming_to(stream: TextIO, logger: logging.Logger) -> Iterator[None]:
    """Let the handlers that write to the terminal write to ``stream``; subclasses write elsewhere."""
    before = [(handler, handler.stream) for handler in logger.handlers if type(handler) is logging.StreamHandler]
    for handler, _ in before:
        handler.stream = stream  # setStream() would flush the other one, which may be closed
    try:
        yield
    finally:
        for handler, given in before:
            handler.stream = given


def _torch_prints() -> bool:
    """Return whether torch is what writes to the stream now."""
    frame = sys._getframe(2)
    while frame.f_back is not None and _package(frame.f_globals) in _RELAYS:
        frame = frame.f_back
    return _package(frame.f_globals) == "torch"


def _package(namespace: dict[str, Any]) -> str:
    return str(namespace.get("__name__", "")).partition(".")[0]
