"""Make Python code see its tensors on another device than the one they are on.

The tensors do not move. What Python reads (``x.device``, ``x.is_cuda``, ``x.get_device()``,
``torch.cuda.is_available()``) is as on the other device, and what it creates there is created where the tensors are.
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

Line = tuple[str, int]
_MACHINE: dict[str, Any] = {"is_available": True, "device_count": 1, "current_device": 0, "is_bf16_supported": True,
                            "get_device_capability": (8, 0)}  # fmt: skip


class SpoofDevice(TorchFunctionMode):
    """Within the block, tensors on ``own`` are reported to be on ``target``, to the lines that ``spoofs`` accepts."""

    def __init__(self, own: torch.device, target: torch.device, spoofs: Callable[[Line], bool]) -> None:
        super().__init__()
        self.own, self.spoofs = own, spoofs
        self.target = torch.device(target.type, target.index or 0) if target.type != "cpu" else target
        self.reads: dict[Line, str] = {}  # how each line read the device, in order

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        if function is torch.device:
            return function(*args, **kwargs or {})
        if args and isinstance(args[0], torch.Tensor):
            if name == self.target.type:
                return args[0].to(self.own)  # x.cuda()
            attribute = getattr(getattr(function, "__self__", None), "__name__", "") if name == "__get__" else name
            spoofed = self._on_target(attribute) if args[0].device == self.own else None
            if spoofed is not None and self._spoofs_reader(attribute):
                return spoofed
        own_args, own_kwargs = self._on_own(name, args, kwargs or {})
        return function(*own_args, **own_kwargs)

    def _on_target(self, attribute: str) -> Any:
        """Return the value that a device attribute has on ``target``; None for any other attribute."""
        if attribute == "device":
            return self.target
        if attribute == "get_device":
            return -1 if self.target.index is None else self.target.index
        kinds = {f"is_{self.own.type}": False, f"is_{self.target.type}": True}
        return kinds.get(attribute)

    def _spoofs_reader(self, read: str) -> bool:
        line = _reading_line()
        self.reads.setdefault(line, read)
        return self.spoofs(line)

    def _on_own(self, name: str, args: Any, kwargs: Any) -> Any:
        def replaced(value: Any, is_device: bool) -> Any:
            number = isinstance(value, int) and not isinstance(value, bool)
            if isinstance(value, torch.device) or (is_device and isinstance(value, str)):
                device = torch.device(value)
                on_target = device.type == self.target.type and device.index in (None, self.target.index)
                return self.own if on_target else value
            return self.own if is_device and number and self.target.type == "cuda" else value

        own_args = tuple(replaced(value, name == "to" and at == 1) for at, value in enumerate(args))
        return own_args, {key: replaced(value, key == "device") for key, value in kwargs.items()}

    @contextmanager
    def machine(self) -> Iterator[None]:
        """Let ``torch.cuda`` report one such device to code outside torch."""
        with ExitStack() as patched:
            for name, value in _MACHINE.items() if self.target.type == "cuda" else ():
                patched.enter_context(mock.patch.object(torch.cuda, name, self._reporting(name, value)))
            yield

    def _reporting(self, name: str, value: Any) -> Callable[..., Any]:
        real = getattr(torch.cuda, name)

        def reported(*args: Any, **kwargs: Any) -> Any:
            by_user = _is_users(sys._getframe(1).f_code.co_filename)
            return value if by_user and self._spoofs_reader(f"torch.cuda.{name}()") else real(*args, **kwargs)

        return reported


def _reading_line() -> Line:
    """Return file and line of the innermost frame of user code."""
    frame = sys._getframe(1)
    while frame is not None and not _is_users(frame.f_code.co_filename):
        frame = frame.f_back  # type: ignore[assignment]
    return (frame.f_code.co_filename, frame.f_lineno) if frame is not None else ("", 0)


_is_users = cache(is_users)
