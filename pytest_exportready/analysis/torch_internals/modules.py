"""Kinds and internals of modules and gradient scalers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

from torch import nn
from torch.nn.modules import batchnorm, dropout

from pytest_exportready.analysis.torch_internals._loaded import loaded_class

if TYPE_CHECKING:
    Norm = batchnorm._NormBase


def scaler_states(scaler: object) -> list[Mapping[str, Any]] | None:
    """Return the state of a GradScaler for each optimizer between ``unscale_`` and ``update``; None if unknown.

    ``GradScaler.state_dict()`` does not contain it.
    """
    states = getattr(scaler, "_per_optimizer_states", None)
    if states is None and getattr(scaler, "is_enabled", lambda: True)():
        return None
    return list((states or {}).values())


def compiled_source(module: nn.Module) -> nn.Module | None:
    """Return the module that ``torch.compile(module)`` wrapped; None for any other module.

    Neither the class of the wrapper nor its inner module has a public name.
    """
    optimized = loaded_class("torch._dynamo.eval_frame", "OptimizedModule")
    if optimized is None or not isinstance(module, optimized):
        return None
    source = vars(module).get("_orig_mod") or dict(module.named_children()).get("_orig_mod")
    return source if isinstance(source, nn.Module) else None


def is_fsdp2(module: nn.Module) -> bool:
    """Return whether ``fully_shard`` was applied to a module, without importing ``torch.distributed.fsdp``."""
    sharded = loaded_class("torch.distributed.fsdp", "FSDPModule")
    return sharded is not None and isinstance(module, sharded)


def checkpointed_source(module: nn.Module) -> nn.Module | None:
    """Return the module inside a ``checkpoint_wrapper`` or ``offload_wrapper``; None for any other module.

    Their class has no public name.
    """
    wrapper = loaded_class("torch.distributed.algorithms._checkpoint.checkpoint_wrapper", "ActivationWrapper")
    if wrapper is None or not isinstance(module, wrapper):
        return None
    source = dict(module.named_children()).get("_checkpoint_wrapped_module")
    return source if isinstance(source, nn.Module) else None


def is_fsdp1(module: nn.Module) -> bool:
    """Return whether it is a FullyShardedDataParallel, without the slow import of ``torch.distributed.fsdp``."""
    wrapper = loaded_class("torch.distributed.fsdp", "FullyShardedDataParallel")
    return wrapper is not None and isinstance(module, wrapper)


def is_persistent(module: nn.Module, buffer: str) -> bool:
    """Return whether a buffer of this module is in its state dict; True if unknown.

    ``state_dict()`` would run hooks, and under FSDP a collective.
    """
    return buffer not in getattr(module, "_non_persistent_buffers_set", ())


def is_norm(module: nn.Module) -> TypeGuard[Norm]:
    """Return whether it is a BatchNorm, SyncBatchNorm, InstanceNorm or a subclass.

    Their common base, which other libraries subclass directly, has no public name.
    """
    base = getattr(batchnorm, "_NormBase", None)
    return isinstance(module, base or (*_PUBLIC_BATCHNORMS, nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d))


def is_batchnorm(module: nn.Module) -> TypeGuard[Norm]:
    """Return whether it is a BatchNorm, SyncBatchNorm or a subclass. Their common base has no public name."""
    return isinstance(module, getattr(batchnorm, "_BatchNorm", None) or _PUBLIC_BATCHNORMS)


def is_dropout(module: nn.Module) -> TypeGuard[nn.Dropout]:
    """Return whether it is a dropout module, all of which have ``p``. Their common base has no public name."""
    base = getattr(dropout, "_DropoutNd", None)
    public = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
    return isinstance(module, base or public)


def plain_attributes(module: nn.Module) -> dict[str, Any]:
    """Return the attributes that are not parameters, buffers, children or hooks.

    ``vars(module)`` also has the internal attributes of ``nn.Module``, whose names are private.
    """
    return {name: value for name, value in vars(module).items() if name not in _OF_EVERY_MODULE}


_OF_EVERY_MODULE = frozenset(vars(nn.Module()))


_PUBLIC_BATCHNORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
