"""Captured output that is too long for a JUnit file, as text files in a folder beside it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pytest_exportready.report import truncate
from pytest_exportready.report.files import write_atomically
from pytest_exportready.report.run import TestResult, anchor

TOTAL_LIMIT = 32 * 1024 * 1024
"""Bytes of all files of one report; results beyond it keep the excerpt in the JUnit file only."""

_NAME = re.compile(r"case-[0-9a-f]{12}\.txt")
_ATTACHMENT = re.compile(r"\[\[ATTACHMENT\|(?:[^\]\n]*/)?([^/\]\n]+)/([^/\]\n]+)\]\]\n")


def write_logs(results: Iterable[TestResult], junit: Path) -> dict[str, str]:
    """Write each output over ``OUTPUT_LIMIT`` to a file, and return by node id the path that a CI service looks for.

    Files that an earlier report left in the folder and this one does not have are removed. Raises OSError.
    """
    folder = junit.with_name(f"{junit.stem}-logs")
    written: dict[str, Path] = {}
    room = TOTAL_LIMIT
    for result in results:
        if len(result.output) <= truncate.OUTPUT_LIMIT:
            continue
        data = result.output.encode()
        room -= len(data)
        if room < 0:
            break
        written[result.nodeid] = folder / f"{result.anchor}.txt"
        write_atomically(written[result.nodeid], data)
    _remove_others(folder, {path.name for path in written.values()})
    return {nodeid: _from_here(path) for nodeid, path in written.items()}


def with_attachment(output: str, path: str) -> str:
    """What goes into ``system-out``: the line that CI services look for, when there is a file, and an excerpt."""
    excerpt = truncate.block(output, truncate.OUTPUT_LIMIT)
    return f"[[ATTACHMENT|{path}]]\n{excerpt}" if path else excerpt


def full_output(told: str, nodeid: str, junit: Path) -> str:
    """The output that ``system-out`` stands for: the attached file where it is the case's own and can be read.

    No other file is ever opened: its name must be the case's, its folder one that lies beside ``junit``.
    """
    found = _ATTACHMENT.match(told)
    if found is None:
        return told
    folder, name = found.groups()
    excerpt = told[found.end() :]
    path = junit.parent / folder / name
    if name != f"{anchor(nodeid)}.txt" or folder in (".", "..") or path.is_symlink() or path.parent.is_symlink():
        return excerpt
    try:
        with path.open("rb") as file:
            return file.read(4 * truncate.LOG_LIMIT).decode("utf-8", "replace")
    except (OSError, ValueError):
        return excerpt


def _remove_others(folder: Path, kept: set[str]) -> None:
    if folder.is_symlink() or not folder.is_dir():
        return
    for path in folder.iterdir():
        if _NAME.fullmatch(path.name) and path.name not in kept:
            with suppress(OSError):
                path.unlink()
    with suppress(OSError):  # not empty
        folder.rmdir()


def _from_here(path: Path) -> str:
    """Relative to the working directory, which CI services take for the project's; else to the report's folder."""
    here = Path.cwd()
    near = path.resolve().is_relative_to(here)
    return (os.path.relpath(path.resolve(), here) if near else f"{path.parent.name}/{path.name}").replace(os.sep, "/")
