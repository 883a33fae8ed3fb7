"""Hook tables of modules and tensors, which have no public reader."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Hook = Callable[..., Any]


def comm_hooks(wrapper: nn.Module) -> list[Hook] | None:
    """Return the communication hooks of a DistributedDataParallel; None if unknown. There is no public reader."""
    hooks = getattr(wrapper, "_comm_hooks", None)
    return None if hooks is None else [entry[0] if isinstance(entry, tuple) else entry for entry in hooks]


def backward_hooks(module: nn.Module) -> list[Hook]:
    """Return the backward and backward-pre hooks of this module; empty if unknown."""
    return [hook for name in _BACKWARD for hook in _hooks(module, name)]


def forward_hooks(module: nn.Module) -> list[Hook]:
    """Return the forward and forward-pre hooks of this module; empty if unknown."""
    return [hook for name in _FORWARD for hook in _hooks(module, name)]


def forward_hook_tables(module: nn.Module | None) -> dict[str, dict[int, Hook]]:
    """Return the tables of forward hooks that run ``"before"`` and ``"after"`` the call; empty if unknown.

    Those of this module, or for None those of every module (``register_module_forward_hook``).
    """
    owner, names = (module, _FORWARD) if module is not None else (sys.modules[nn.Module.__module__], _GLOBAL_FORWARD)
    return {kind: _hook_table(owner, name) for kind, name in zip(("before", "after"), names, strict=True)}


def state_dict_hooks(module: nn.Module) -> list[Hook]:
    """Return the hooks on saving the state dict of this module; empty if unknown."""
    return [hook for name in ("_state_dict_pre_hooks", "_state_dict_hooks") for hook in _hooks(module, name)]


def gradient_hooks(tensor: torch.Tensor) -> list[Hook]:
    """Return the hooks on the gradient of a tensor; empty if unknown."""
    return [hook for name in _GRADIENT for hook in _hooks(tensor, name)]


def clear_backward_hooks(module: nn.Module) -> None:
    """Remove the backward hooks of this module. The public API needs the handles of their registration."""
    for name in _BACKWARD:
        _hook_table(module, name).clear()
    if hasattr(module, "_is_full_backward_hook"):
        module._is_full_backward_hook = None


def clear_gradient_hooks(tensor: torch.Tensor) -> None:
    """Remove the hooks on the gradient of a tensor. The public API needs the handles of their registration."""
    for name in _GRADIENT:
        _hook_table(tensor, name).clear()


def gradient_hook_tables(tensor: torch.Tensor) -> list[dict[int, Hook]]:
    """Return the tables behind ``gradient_hooks``, to restore them after they were cleared."""
    return [_hook_table(tensor, name) for name in _GRADIENT]


_FORWARD = ("_forward_pre_hooks", "_forward_hooks")


_GLOBAL_FORWARD = ("_global_forward_pre_hooks", "_global_forward_hooks")


_BACKWARD = ("_backward_pre_hooks", "_backward_hooks")


_GRADIENT = ("_backward_hooks", "_post_accumulate_grad_hooks")


def _hook_table(owner: object, name: str) -> dict[int, Hook]:
    table = getattr(owner, name, None)
    return table if isinstance(table, dict) else {}


def _hooks(owner: object, name: str) -> list[Hook]:
    return list(_hook_table(owner, name).values())
