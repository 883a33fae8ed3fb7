"""Every private torch API in use, each behind one function that says why nothing public serves.

A torch without the API yields the documented unknown value (None, or an empty list), never an exception.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from torch import nn
from torch.nn.modules import batchnorm, dropout

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    Norm = batchnorm._NormBase

Hook = Callable[..., Any]


def scaler_states(scaler: object) -> list[Mapping[str, Any]] | None:
    """The state that a GradScaler keeps for each optimizer between ``unscale_`` and ``update``; None if
    unknown.

    ``GradScaler.state_dict()`` leaves it out, and nothing else shows it.
    """
    states = getattr(scaler, "_per_optimizer_states", None)
    if states is None and getattr(scaler, "is_enabled", lambda: True)():
        return None
    return list((states or {}).values())


def comm_hooks(wrapper: nn.Module) -> list[Hook] | None:
    """Communication hooks registered on a DistributedDataParallel; None if unknown.

    ``register_comm_hook`` has no counterpart that reads.
    """
    hooks = getattr(wrapper, "_comm_hooks", None)
    return None if hooks is None else [entry[0] if isinstance(entry, tuple) else entry for entry in hooks]


def compiled_source(module: nn.Module) -> nn.Module | None:
    """The module that ``torch.compile(module)`` wrapped; None for any other module.

    The class that ``torch.compile`` returns for a module has no public name, nor has its inner module.
    """
    optimized = _loaded("torch._dynamo.eval_frame", "OptimizedModule")
    if optimized is None or not isinstance(module, optimized):
        return None
    source = vars(module).get("_orig_mod") or dict(module.named_children()).get("_orig_mod")
    return source if isinstance(source, nn.Module) else None


def is_fake(tensor: torch.Tensor) -> bool:
    """True for a FakeTensor: shape and dtype without values, as a trace leaves behind.

    There is no public class or predicate.
    """
    fake = _loaded("torch._subclasses.fake_tensor", "FakeTensor")
    return fake is not None and isinstance(tensor, fake)


def is_dtensor(tensor: torch.Tensor) -> bool:
    """True for a DTensor, without importing ``torch.distributed.tensor``, which takes long and may be
    absent.
    """
    distributed = _loaded("torch.distributed.tensor", "DTensor")
    return distributed is not None and isinstance(tensor, distributed)


def is_fsdp1(module: nn.Module) -> bool:
    """True for FullyShardedDataParallel itself, without importing ``torch.distributed.fsdp``, which takes long."""
    wrapper = _loaded("torch.distributed.fsdp", "FullyShardedDataParallel")
    return wrapper is not None and isinstance(module, wrapper)


def is_persistent(module: nn.Module, buffer: str) -> bool:
    """Whether a buffer of this very module is in its state dict; True if unknown.

    ``state_dict()`` would tell, but runs the hooks of users, and under FSDP a collective.
    """
    return buffer not in getattr(module, "_non_persistent_buffers_set", ())


def program_guards(program: ExportedProgram) -> list[str]:
    """Guards of a program as Python expressions, such as ``L['x'].size()[0] % 2 == 0``; empty if unknown.

    ``range_constraints`` omits what is no range, divisibility for one.
    """
    return list(getattr(program, "_guards_code", None) or [])


def backward_hooks(module: nn.Module) -> list[Hook]:
    """Backward and backward-pre hooks of this very module; empty if unknown. Public is only registering
    them.
    """
    return [hook for name in _BACKWARD for hook in _hooks(module, name)]


def forward_hooks(module: nn.Module) -> list[Hook]:
    """Forward and forward-pre hooks of this very module; empty if unknown. Only registering is public."""
    return [hook for name in ("_forward_pre_hooks", "_forward_hooks") for hook in _hooks(module, name)]


def gradient_hooks(tensor: torch.Tensor) -> list[Hook]:
    """Hooks on the gradient of a tensor; empty if unknown. Public is only registering them."""
    return [hook for name in _GRADIENT for hook in _hooks(tensor, name)]


def clear_backward_hooks(module: nn.Module) -> None:
    """Remove this very module's backward hooks; otherwise only the handle from registering could."""
    for name in _BACKWARD:
        _hook_table(module, name).clear()
    if hasattr(module, "_is_full_backward_hook"):
        module._is_full_backward_hook = None


def clear_gradient_hooks(tensor: torch.Tensor) -> None:
    """Remove the hooks on the gradient of a tensor; otherwise only the handle from registering could."""
    for name in _GRADIENT:
        _hook_table(tensor, name).clear()


def gradient_hook_tables(tensor: torch.Tensor) -> list[dict[int, Hook]]:
    """The tables themselves behind ``gradient_hooks``, to be put back after somebody cleared them."""
    return [_hook_table(tensor, name) for name in _GRADIENT]


def is_norm(module: nn.Module) -> TypeGuard[Norm]:
    """True for BatchNorm, SyncBatchNorm, InstanceNorm and what derives from them.

    Their common base, which other libraries subclass directly, has no public name.
    """
    base = getattr(batchnorm, "_NormBase", None)
    return isinstance(module, base or (*_PUBLIC_BATCHNORMS, nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d))


def is_batchnorm(module: nn.Module) -> TypeGuard[Norm]:
    """True for BatchNorm, SyncBatchNorm and what derives from them; their common base has no public name."""
    return isinstance(module, getattr(batchnorm, "_BatchNorm", None) or _PUBLIC_BATCHNORMS)


def is_dropout(module: nn.Module) -> TypeGuard[nn.Dropout]:
    """True for every dropout class, all of which have ``p``; their common base has no public name."""
    base = getattr(dropout, "_DropoutNd", None)
    public = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
    return isinstance(module, base or public)


def plain_attributes(module: nn.Module) -> dict[str, Any]:
    """Instance attributes that ``nn.Module`` does not manage: neither parameters, buffers, children nor
    hooks.

    ``vars(module)`` mixes them with the module's own bookkeeping, whose names are private.
    """
    return {name: value for name, value in vars(module).items() if name not in _OF_EVERY_MODULE}


_OF_EVERY_MODULE = frozenset(vars(nn.Module()))
_PUBLIC_BATCHNORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
_BACKWARD = ("_backward_pre_hooks", "_backward_hooks")
_GRADIENT = ("_backward_hooks", "_post_accumulate_grad_hooks")


def _hook_table(owner: object, name: str) -> dict[int, Hook]:
    table = getattr(owner, name, None)
    return table if isinstance(table, dict) else {}


def _hooks(owner: object, name: str) -> list[Hook]:
    return list(_hook_table(owner, name).values())


def _loaded(module: str, name: str) -> type | None:
    """A class of a module that is imported already: without it no instance can exist."""
    found = getattr(sys.modules.get(module), name, None)
    return found if isinstance(found, type) else None
