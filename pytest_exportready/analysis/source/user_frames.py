"""Places in user code that an exception came through."""

from __future__ import annotations

import os
import re
import sysconfig
import traceback
from pathlib import Path

import torch
from torch import nn

from pytest_exportready.analysis.torch_internals.programs import traced_frames

_NOT_USERS = tuple(str(folder) + os.sep for folder in (Path(__file__).parents[2], Path(torch.__file__).parent))
_STDLIB = sysconfig.get_paths()["stdlib"] + os.sep
_INSTALLED = re.compile(r"[\\/](?:site|dist)-packages[\\/](?P<package>[^\\/]+)")
_OURS = "exportready_fixtures"
_TOOLS = {"_pytest", "executorch", "mpmath", "numpy", "pluggy", "pytest", "sympy"}
_SOURCE = re.compile(r'File "([^"<>]+)", line (\d+), in ')


def chain(error: BaseException) -> list[BaseException]:
    """Return ``error`` and its causes, outermost first."""
    found: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in found:
        found.append(current)
        current = current.__cause__ or current.__context__
    return found


def user_place(error: BaseException) -> tuple[str, int]:
    """Return file and line of the innermost frame of user code; ``("", 0)`` without one.

    Frames that torch only quotes, in its message or beside it, count too: a symbolic error is raised elsewhere.
    """
    return (user_frames(error) or [("", 0)])[-1]


def user_frames(error: BaseException) -> list[tuple[str, int]]:
    """Return files and lines of user code in the stack of ``user_place``, outermost first."""
    for link in reversed(chain(error)):
        for frames in _stacks(link):
            users = [(file, line) for file, line in frames if is_users(file)]
            if users:
                return users
    return []


def source_files(error: BaseException) -> list[str]:
    """Return every file that the error came through, including torch's."""
    return [file for link in chain(error) for frames in _stacks(link) for file, _ in frames]


def module_at(error: BaseException, root: nn.Module) -> str | None:
    """Return the name of the innermost module of ``root`` whose ``forward`` the error came through; None if unknown.

    Strict export gives lines only. A line counts if it is in the ``forward`` of a single module.
    """
    names: dict[int, str] = {id(module): name for name, module in root.named_modules()}
    for link in reversed(chain(error)):
        running = [id(frame.f_locals.get("self")) for frame, _ in traceback.walk_tb(link.__traceback__)]
        found = [names[module] for module in running if module in names]
        if found:
            return found[-1]
    file, line = user_place(error)
    there = [name for name, module in root.named_modules() if _forward_holds(module, file, line)]
    return there[0] if len(there) == 1 else None


def _forward_holds(module: nn.Module, file: str, line: int) -> bool:
    code = getattr(module.forward, "__code__", None)
    return code is not None and code.co_filename == file and any(line == at for _, _, at in code.co_lines())


def _stacks(error: BaseException) -> list[list[tuple[str, int]]]:
    """Return the stacks that may contain the place of ``error``, the most precise first."""
    quoted = [(file, int(line)) for file, line in _SOURCE.findall(_text(error))]
    raised = [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)]
    return [quoted, traced_frames(error), raised]


def stack_place(stack_trace: str | None) -> tuple[str, int]:
    """Return file and line of the innermost frame of user code in a node's ``stack_trace``."""
    return (stack_places(stack_trace) or [("", 0)])[-1]


def stack_places(stack_trace: str | None) -> list[tuple[str, int]]:
    """Return files and lines of user code in a node's ``stack_trace``, outermost first."""
    return [(file, int(line)) for file, line in _SOURCE.findall(stack_trace or "") if is_users(file)]


def is_users(file: str) -> bool:
    """Return whether a source file is user code: not of torch, Python, pytest or this plugin.

    Other installed packages count as user code; ``is_project_module`` of ``diagnosis.reproduce`` excludes them.
    """
    if file.startswith((*_NOT_USERS, "<")) or _OURS in Path(file).parts:
        return False
    installed = _INSTALLED.search(file)
    return installed["package"] not in _TOOLS if installed else not file.startswith(_STDLIB)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""
