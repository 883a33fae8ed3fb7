"""Captured output that is too long for a JUnit file, in text files in a folder beside it."""

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
"""Bytes of all files of one report; further results have only the excerpt in the JUnit file."""

_NAME = re.compile(r"case-[0-9a-f]{12}\.txt")
_ATTACHMENT = re.compile(r"\[\[ATTACHMENT\|(?:[^\]\n]*/)?([^/\]\n]+)/([^/\]\n]+)\]\]\n")


def write_logs(results: Iterable[TestResult], junit: Path) -> dict[str, str]:
    """Write each output over ``OUTPUT_LIMIT`` to a file, and return the paths by node id as a CI service expects them.

    Removes files of an earlier report that this one does not have.

    Raises:
        OSError: A file cannot be written.
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
    """Return the text of ``system-out``: an excerpt, after the line that names the file if there is one."""
    excerpt = truncate.block(output, truncate.OUTPUT_LIMIT)
    return f"[[ATTACHMENT|{path}]]\n{excerpt}" if path else excerpt


def full_output(text: str, nodeid: str, junit: Path) -> str:
    """Return the attached file of a case if it can be read, otherwise the text of ``system-out``.

    Opens no other file: its name must be that of the case, its folder must be beside ``junit``.
    """
    found = _ATTACHMENT.match(text)
    if found is None:
        return text
    folder, name = found.groups()
    excerpt = text[found.end() :]
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
    """Return the path relative to the working directory, as CI services expect, or else to the folder of the report."""
    here = Path.cwd()
    near = path.resolve().is_relative_to(here)
    return (os.path.relpath(path.resolve(), here) if near else f"{path.parent.name}/{path.name}").replace(os.sep, "/")
