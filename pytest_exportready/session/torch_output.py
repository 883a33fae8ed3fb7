"""Keep the output of torch out of the terminal while a case is judged; the reports contain it.

For a failed export torch prints whole graphs to stderr and warnings to its loggers; a finding gives the cause in one
line. torch also formats every graph for the logger ``torch.__trace`` as soon as that has a handler, and pytest 9.2
attaches its capture handler to every logger that does not propagate.
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
"""Modules that print on behalf of their callers."""


class _WithoutTorch:
    """A stream that writes the output of torch to ``kept`` and everything else to ``stream``."""

    def __init__(self, stream: TextIO, kept: TextIO) -> None:
        self._stream = stream
        self._kept = kept

    def write(self, text: str) -> int:
        return (self._kept if _torch_prints() else self._stream).write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def torch_output_kept() -> Iterator[io.StringIO]:
    """Collect what torch prints to stderr and logs. If ``TORCH_LOGS`` is set, print it as usual."""
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
    """Remove pytest's handlers from ``logger`` for a while; those of torch and of the user stay."""
    removed = [handler for handler in logger.handlers if type(handler).__module__.startswith("_pytest.")]
    for handler in removed:
        logger.removeHandler(handler)
    try:
        yield
    finally:
        for handler in removed:
            logger.addHandler(handler)


@contextmanager
def _streaming_to(stream: TextIO, logger: logging.Logger) -> Iterator[None]:
    """Redirect the handlers that write to the terminal to ``stream``; subclasses write elsewhere."""
    before = [(handler, handler.stream) for handler in logger.handlers if type(handler) is logging.StreamHandler]
    for handler, _ in before:
        handler.stream = stream  # setStream() would flush the other one, which may be closed
    try:
        yield
    finally:
        for handler, original in before:
            handler.stream = original


def _torch_prints() -> bool:
    """Return whether the caller of ``write`` is torch."""
    frame = sys._getframe(2)
    while frame.f_back is not None and _package(frame.f_globals) in _RELAYS:
        frame = frame.f_back
    return _package(frame.f_globals) == "torch"


def _package(namespace: dict[str, Any]) -> str:
    return str(namespace.get("__name__", "")).partition(".")[0]
