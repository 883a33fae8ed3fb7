"""The names of devices that cases run on."""

from __future__ import annotations

import re
from collections.abc import Iterable

AUTO = "auto"
"""A GPU where one can be used, otherwise the CPU."""

ACCEPTED = "cpu, cuda or cuda:1"
_NAME = re.compile(r"cpu|cuda(:\d+)?")


def is_device(name: object) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def is_gpu(name: str) -> bool:
    return name.startswith("cuda")


def allows(devices: Iterable[str], name: str) -> bool:
    """Return whether ``name`` is among ``devices``: ``cuda`` there stands for every GPU."""
    return any(name == device or name.startswith(f"{device}:") for device in devices)
