"""Start the loader process when it is first needed, and ask it to load and run saved programs."""

from __future__ import annotations

import atexit
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_exportready.analysis.processes.child import ProcessDied, TookTooLong, ending

START_LIMIT = 180.0  # seconds for a process to import torch on a loaded machine
_START = "from pytest_exportready.analysis.processes.loader import main; main()"


class LoaderGone(Exception):
    """The loader process itself, not the child that loads, ended; the message says why."""


class Loader:
    """The loader process that belongs to this Python process."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        atexit.register(self.stop)

    def ensure_started(self) -> None:
        """Start the process unless it is running; do not wait for it."""
        if self._owner == os.getpid() and self._process is not None and self._process.poll() is None:
            return
        self.stop()
        self._owner = os.getpid()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by stop)
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=tempfile.gettempdir(),
            start_new_session=True,  # a group of its own, so that stop() reaches the children
        )
        self._greeted = False

    def ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Return the reply to ``request``.

        Raises:
            ProcessDied: the child crashed.
            TookTooLong: there was no reply after ``seconds``.
            LoaderGone: the loader ended or does not start.
        """
        try:
            ended = self._exchange(request, seconds)
        except LoaderGone:
            ended = self._exchange(request, seconds)  # it was killed since the last request
        if ended["late"]:
            raise TookTooLong(f"took longer than {seconds:.0f} s")
        reply = Path(request["reply"])
        if not reply.exists():
            raise ProcessDied(f"the process that loads it ended with {ending(ended['exit'])}, without a result")
        return dict(json.loads(reply.read_text(encoding="utf-8")))

    def _exchange(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        self.ensure_started()
        assert self._process is not None
        assert self._process.stdin is not None
        if not self._greeted:
            self._line(START_LIMIT, LoaderGone(f"the loader process did not start within {START_LIMIT:.0f} s"))
            self._greeted = True
        try:
            self._process.stdin.write(json.dumps({**request, "seconds": seconds}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._gone() from error
        late = LoaderGone("the loader process does not respond")
        return dict(json.loads(self._line(seconds + START_LIMIT, late)))

    def stop(self) -> None:
        """Kill the loader and its children."""
        if self._process is not None and self._owner == os.getpid():
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout, self._errors):
                with suppress(BrokenPipeError):
                    if pipe is not None:
                        pipe.close()
        self._process = None

    def _gone(self) -> LoaderGone:
        self._errors.seek(0)
        lines = self._errors.read()[-2000:].decode(errors="replace").strip().splitlines()
        self.stop()
        return LoaderGone(f"the loader process ended: {lines[-1] if lines else 'no error output'}")

    def _line(self, seconds: float, late: Exception) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(seconds):
                self.stop()
                raise late
        line = self._process.stdout.readline()
        if not line:
            raise self._gone()
        return line


LOADER = Loader()
