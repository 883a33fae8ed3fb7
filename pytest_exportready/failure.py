"""Where in the user's own source an exception comes from."""

from __future__ import annotations

import os
import re
import sysconfig
import traceback
from pathlib import Path

import torch

_NOT_USERS = tuple(str(folder) + os.sep for folder in (Path(__file__).parent, Path(torch.__file__).parent))
_STDLIB = sysconfig.get_paths()["stdlib"] + os.sep
_INSTALLED = re.compile(r"[\\/](?:site|dist)-packages[\\/](?P<package>[^\\/]+)")
_OURS = "exportready_fixtures"
_TOOLS = {"_pytest", "mpmath", "numpy", "pluggy", "pytest", "sympy"}
_SOURCE = re.compile(r'File "([^"<>]+)", line (\d+), in ')


def chain(error: BaseException) -> list[BaseException]:
    """``error`` and what caused it, outermost first."""
    found: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in found:
        found.append(current)
        current = current.__cause__ or current.__context__
    return found


def user_place(error: BaseException) -> tuple[str, int]:
    """File and line of the innermost frame that is neither torch's, Python's nor ours; ``("", 0)`` if there
    is none.

    Frames of a trace that torch only quotes in its message count too: a symbolic error is raised far from
    its cause.
    """
    for link in reversed(chain(error)):
        quoted = [(file, int(line)) for file, line in _SOURCE.findall(_text(link)) if _is_users(file)]
        raised = [
            (f.filename, f.lineno or 0) for f in traceback.extract_tb(link.__traceback__) if _is_users(f.filename)
        ]
        if quoted or raised:
            return (quoted or raised)[-1]
    return "", 0


def stack_place(stack_trace: str | None) -> tuple[str, int]:
    """File and line of the innermost frame of the user in a graph node's ``stack_trace``."""
    places = [(file, int(line)) for file, line in _SOURCE.findall(stack_trace or "") if _is_users(file)]
    return places[-1] if places else ("", 0)


def _is_users(file: str) -> bool:
    if file.startswith((*_NOT_USERS, "<")) or _OURS in Path(file).parts:
        return False
    installed = _INSTALLED.search(file)
    return installed["package"] not in _TOOLS if installed else not file.startswith(_STDLIB)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""
