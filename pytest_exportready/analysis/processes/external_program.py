"""Run programs that may crash or hang, so that the caller does neither and none of them stays behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

from pytest_exportready.analysis.processes.child import ending

_ERROR = re.compile(r"^(?:\[rank\d+\]: ?)?((?:\w+\.)*\w*Error: .*)", re.MULTILINE)
_LONGEST = 300  # characters of an error
_PAUSE = 0.05  # seconds between two looks
_PATIENCE = 5.0  # seconds for a killed process to end: inside a driver, some never do


class ProgramFailed(Exception):
    """A program failed, crashed or hung; the message is a predicate, such as "takes longer than 30 s"."""


class Program:
    """A program that runs in a session of its own until the ``with`` block ends.

    Args:
        command: The program and its arguments.
        environment: All of its variables; those of this process by default.

    Raises:
        FileNotFoundError: It does not exist.
        ProgramFailed: It cannot be started.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        # files, because a pipe that a stuck process holds open cannot be read to its end
        try:
            self._printed, self._errors = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115
        except OSError as error:
            raise ProgramFailed(f"needs a temporary folder: {error.strerror or error}") from None
        try:
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=self._printed,
                stderr=self._errors,
                start_new_session=True,
            )
        except OSError as error:
            self._close()
            if isinstance(error, FileNotFoundError):
                raise
            raise ProgramFailed(f"does not start: {error.strerror or error}") from None

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_PATIENCE)
        self._close()

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.poll()

    @property
    def printed(self) -> str:
        return _text(self._printed)

    @property
    def errors(self) -> str:
        return _text(self._errors)

    @property
    def problem(self) -> str:
        """How it ended, and its error."""
        if self.code is not None and self.code < 0:
            return f"ended with {ending(self.code)}"
        found = _ERROR.search(self.errors)
        error = found[1] if found else first_line(self.printed + self.errors)
        return f"fails: {error[:_LONGEST]}"

    def _close(self) -> None:
        self._printed.close()
        self._errors.close()


def output_of(command: Sequence[str], seconds: float) -> str:
    """Return what a program prints.

    Raises:
        FileNotFoundError: It does not exist.
        ProgramFailed: It does not end in ``seconds``, or it fails.
    """
    end = time.monotonic() + seconds
    with Program(command) as program:
        while program.code is None:
            if time.monotonic() > end:
                raise ProgramFailed(f"takes longer than {seconds:g} s")
            time.sleep(_PAUSE)
        if program.code:
            raise ProgramFailed(program.problem)
        return program.printed


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "it prints nothing")


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
