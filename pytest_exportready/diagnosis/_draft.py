"""What else is wrong: ``draft_export`` goes on where an export stops, and tells each place."""

from __future__ import annotations

import logging
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from pytest_exportready.analysis.execution.dynamic_shapes import dynamic_shapes
from pytest_exportready.analysis.execution.pytree import distinct
from pytest_exportready.analysis.ranks.check_ranks import several_ranks
from pytest_exportready.analysis.source.user_frames import is_users
from pytest_exportready.analysis.torch_internals.programs import draft_failures
from pytest_exportready.case.wording import few
from pytest_exportready.diagnosis._affordable import affordable
from pytest_exportready.diagnosis._diagnosis import Failure

_SIZE = re.compile(r"L\['(\w+)'\]((?:\[[^\]]+\])*)\.size\(\)\[(\d+)\]")


@dataclass(frozen=True)
class Met:
    """One obstacle: the user's file and line (empty and 0 if unknown), operators or sizes such as ``x.shape[0]``."""

    kind: str
    file: str
    line: int
    subjects: tuple[str, ...]


def met_on_the_way(failure: Failure, kind: str) -> list[Met]:
    """Every obstacle of ``kind`` (``DATA_DEPENDENT_ERROR``, ``GUARD_ADDED``, ``MISSING_FAKE_KERNEL``) in the order of
    the program, each place once; empty where ``draft_export`` fails too or would take too long.

    Empty in one of several ranks, too: it takes branches that the example does not, with collectives that really run.
    """
    case, module = failure.trial.case, failure.module
    if several_ranks() or not affordable(failure):
        return []
    call = (case.args, dict(case.kwargs))
    try:
        shapes = dynamic_shapes(module, call, failure.trial.options)
        args, kwargs = distinct(call)
        with _quiet(), torch.random.fork_rng():
            program = torch.export.draft_export(module, args, kwargs, dynamic_shapes=shapes)
    except Exception:
        return []
    found = [
        Met(name, file if is_users(file) else "", line if is_users(file) else 0, tuple(map(_named, subjects)))
        for name, file, line, subjects in draft_failures(program)
        if name == kind
    ]
    return list(dict.fromkeys(found))


def elsewhere(found: list[Met], file: str, line: int) -> str:
    """``; the same at net.py:31``, for the places besides the one told; empty if there are none."""
    places = dict.fromkeys((m.file, m.line) for m in found if m.file and (m.file, m.line) != (file, line))
    return f"; the same at {few(f'{Path(f).name}:{n}' for f, n in places)}" if places else ""


def _named(subject: str) -> str:
    return _SIZE.sub(lambda found: f"{found[1]}{found[2]}.shape[{found[3]}]", subject)


@contextmanager
def _quiet() -> Iterator[None]:
    """It warns to be a draft, logs its report, and leaves a file with its trace behind, open."""
    trace, disabled = logging.getLogger("torch.__trace"), logging.root.manager.disable
    had, seen = list(trace.handlers), set[logging.Handler]()

    def look(record: logging.LogRecord) -> bool:
        seen.update(trace.handlers)
        return True

    trace.addFilter(look)
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), TemporaryDirectory() as folder, _environment("TORCH_DTRACE", folder):
            warnings.simplefilter("ignore")
            try:
                yield
            finally:
                for handler in seen.difference(had):
                    handler.close()
    finally:
        logging.disable(disabled)
        trace.removeFilter(look)


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before
