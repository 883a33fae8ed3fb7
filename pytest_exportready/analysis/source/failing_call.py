"""The user function that raised an exception, and its arguments."""

from __future__ import annotations

import traceback
from types import FrameType
from typing import Any

from torch import nn
from torch.autograd.function import FunctionCtx

from pytest_exportready.analysis.source.user_frames import chain, is_users


def failing_function(error: BaseException) -> tuple[str, dict[str, Any]] | None:
    """Return name and arguments of the innermost user function; None without a frame, as in strict export.

    ``self`` and ``ctx`` are left out, and ``forward`` gets the name of its class.
    """
    for link in reversed(chain(error)):
        frames = [frame for frame, _ in traceback.walk_tb(link.__traceback__) if is_users(frame.f_code.co_filename)]
        if frames:
            return _named(frames[-1])
    return None


def _named(frame: FrameType) -> tuple[str, dict[str, Any]]:
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    arguments = {name: frame.f_locals[name] for name in names if name in frame.f_locals}
    name = code.co_name.strip("<>")
    first = next(iter(arguments.values()), None)
    if isinstance(first, (nn.Module, FunctionCtx)):
        arguments.pop(names[0])
        owner = type(first).__name__.removesuffix("Backward").lower()
        name = owner if name == "forward" else name
    return name, arguments
