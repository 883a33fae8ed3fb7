"""Find the other places of a problem: ``draft_export`` continues where an export stops, and reports each place."""

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
class DraftProblem:
    """A problem that draft_export reports."""

    kind: str
    file: str  # of the user; empty if unknown
    line: int  # 0 if unknown
    subjects: tuple[str, ...]  # operators, or sizes such as ``x.shape[0]``


def draft_problems(failure: Failure, kind: str) -> list[DraftProblem]:
    """Return every problem of one kind in the order of the program, each place once.

    Empty where ``draft_export`` fails as well or would take too long, and in one of several ranks: it takes branches
    that the example does not take, whose collectives would run.

    Args:
        kind: ``DATA_DEPENDENT_ERROR``, ``GUARD_ADDED`` or ``MISSING_FAKE_KERNEL``.
    """
    if several_ranks() or not affordable(failure):
        return []
    module, call = failure.module, failure.trial.call
    try:
        shapes = dynamic_shapes(module, call, failure.trial.options)
        args, kwargs = distinct(call)
        with _quiet(), torch.random.fork_rng():
            program = torch.export.draft_export(module, args, kwargs, dynamic_shapes=shapes)
    except Exception:
        return []
    found = [
        DraftProblem(name, *((file, line) if is_users(file) else ("", 0)), tuple(map(_size_name, subjects)))
        for name, file, line, subjects in draft_failures(program)
        if name == kind
    ]
    return list(dict.fromkeys(found))


def other_places(problems: list[DraftProblem], file: str, line: int) -> str:
    """Return a sentence with a leading space that names the places other than this one; empty if there are none."""
    places = dict.fromkeys((p.file, p.line) for p in problems if p.file and (p.file, p.line) != (file, line))
    return f" The same problem is at {few(f'{Path(f).name}:{n}' for f, n in places)}." if places else ""


def _size_name(subject: str) -> str:
    return _SIZE.sub(lambda found: f"{found[1]}{found[2]}.shape[{found[3]}]", subject)


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the warning that it is a draft, its log, and the file with its trace, which it leaves open."""
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
