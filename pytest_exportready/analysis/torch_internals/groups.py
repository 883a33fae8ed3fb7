"""Process groups by name."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch


def register_group(name: str, group: Any) -> None:
    """Let operators find the process group ``group`` under ``name``; what is public knows torch's own names only."""
    _c10d()._register_process_group(name, group)


def unregister_group(name: str) -> None:
    """Undo ``register_group``; nothing where torch forgot the name already, as when its groups were destroyed."""
    with suppress(RuntimeError):
        _c10d()._unregister_process_group(name)


def _c10d() -> Any:
    from torch._C import _distributed_c10d

    return _distributed_c10d


def functional_collectives() -> Any:
    """The operators that functional collectives are made of, which a program keeps by their group's name."""
    return torch.ops._c10d_functional
