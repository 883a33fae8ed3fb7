"""Tell Python code that its tensors are on another device than they are.

The tensors stay; what Python asks (``x.device``, ``x.is_cuda``, ``x.get_device()``, ``torch.cuda.is_available()``) is
answered as on the other device, and what it makes there is made where the tensors are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

from pytest_exportready.analysis.source.user_frames import is_users

Place = tuple[str, int]
Believed = Callable[[Place], bool]
_MACHINE: dict[str, Any] = {"is_available": True, "device_count": 1, "current_device": 0, "is_bf16_supported": True,
                            "get_device_capability": (8, 0)}  # fmt: skip


class Pretending(TorchFunctionMode):
    """Says to the lines that ``believed`` accepts that tensors of ``own`` are on ``target``; makes on ``own`` what is
    to be made there.

    asked: the lines that asked for the device, and how, in order.
    """

    def __init__(self, own: torch.device, target: torch.device, believed: Believed) -> None:
        super().__init__()
        self.own, self.believed = own, believed
        self.target = torch.device(target.type, target.index or 0) if target.type != "cpu" else target
        self.asked: dict[Place, str] = {}

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        if function is torch.device:
            return function(*args, **kwargs or {})
        if args and isinstance(args[0], torch.Tensor):
            if name == self.target.type:
                return args[0].to(self.own)  # x.cuda()
            asked = getattr(getattr(function, "__self__", None), "__name__", "") if name == "__get__" else name
            told = self._told(asked) if args[0].device == self.own else None
            if told is not None and self._believes(asked):
                return told
        own_args, own_kwargs = self._made_here(name, args, kwargs or {})
        return function(*own_args, **own_kwargs)

    def _told(self, asked: str) -> Any:
        """What is answered on ``target`` to a question about the device; None for any other."""
        if asked == "device":
            return self.target
        if asked == "get_device":
            return -1 if self.target.index is None else self.target.index
        kinds = {f"is_{self.own.type}": False, f"is_{self.target.type}": True}
        return kinds.get(asked)

    def _believes(self, name: str) -> bool:
        place = _asking()
        self.asked.setdefault(place, name)
        return self.believed(place)

    def _made_here(self, name: str, args: Any, kwargs: Any) -> Any:
        def here(value: Any, says_device: bool) -> Any:
            number = isinstance(value, int) and not isinstance(value, bool)
            if isinstance(value, torch.device) or (says_device and isinstance(value, str)):
                device = torch.device(value)
                there = device.type == self.target.type and device.index in (None, self.target.index)
                return self.own if there else value
            return self.own if says_device and number and self.target.type == "cuda" else value

        own_args = tuple(here(value, name == "to" and at == 1) for at, value in enumerate(args))
        return own_args, {key: here(value, key == "device") for key, value in kwargs.items()}

    @contextmanager
    def machine(self) -> Iterator[None]:
        """``torch.cuda`` as on a machine with one such device, for whoever outside torch asks."""
        with ExitStack() as patched:
            for name, answer in _MACHINE.items() if self.target.type == "cuda" else ():
                patched.enter_context(mock.patch.object(torch.cuda, name, self._answering(name, answer)))
            yield

    def _answering(self, name: str, answer: Any) -> Callable[..., Any]:
        real = getattr(torch.cuda, name)

        def told(*args: Any, **kwargs: Any) -> Any:
            users = _users(sys._getframe(1).f_code.co_filename)
            return answer if users and self._believes(f"torch.cuda.{name}()") else real(*args, **kwargs)

        return told


def _asking() -> Place:
    """File and line of the innermost frame of the user's."""
    frame = sys._getframe(1)
    while frame is not None and not _users(frame.f_code.co_filename):
        frame = frame.f_back  # type: ignore[assignment]
    return (frame.f_code.co_filename, frame.f_lineno) if frame is not None else ("", 0)


_users = cache(is_users)
