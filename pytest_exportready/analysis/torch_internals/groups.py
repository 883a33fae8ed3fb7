"""Process groups by name."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch


def register_group(name: str, group: Any) -> None:
    """Let operators find ``group`` by ``name``. The public API knows names assigned by torch only."""
    _c10d()._register_process_group(name, group)


def unregister_group(name: str) -> None:
    """Undo ``register_group``. Do nothing if torch has removed the name, as when groups were destroyed."""
    with suppress(RuntimeError):
        _c10d()._unregister_process_group(name)


def _c10d() -> Any:
    from torch._C import _distributed_c10d

    return _distributed_c10d


def functional_collectives() -> Any:
    """Return the operators of functional collectives, which a program keeps with the name of their group."""
    return torch.ops._c10d_functional
