"""Find modules whose parameters are sharded over the ranks, and make a whole copy of one."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from pytest_exportready.analysis.torch_internals.modules import is_fsdp1, is_fsdp2
from pytest_exportready.analysis.torch_internals.tensors import is_dtensor


def sharded_parameters(model: nn.Module) -> dict[str, str]:
    """Return the parameters and buffers that are DTensors, with their placements, such as ``Shard(0)``."""
    state = [*model.named_parameters(), *model.named_buffers()]
    return {name: ", ".join(map(_shown, getattr(t, "placements", ()))) for name, t in state if is_dtensor(t)}


def _shown(placement: Any) -> str:
    return f"{type(placement).__name__}({getattr(placement, 'dim', '')})"


def sharding_modules(model: nn.Module) -> dict[str, nn.Module]:
    """Return the modules under FullyShardedDataParallel or ``fully_shard``, by name, parents first."""
    return {name: module for name, module in model.named_modules() if is_fsdp1(module) or is_fsdp2(module)}


class Gathered:
    """Records which modules under ``fully_shard`` have their parameters gathered, to restore that later."""

    def __init__(self, model: nn.Module) -> None:
        self._before = [(module, _is_gathered(module)) for module in model.modules() if is_fsdp2(module)]

    def restore(self) -> None:
        """Restore the recorded state; a collective if something that was gathered no longer is."""
        for module, gathered in self._before:
            if _is_gathered(module) != gathered:
                module.unshard() if gathered else module.reshard()  # type: ignore[operator]


def _is_gathered(module: nn.Module) -> bool:
    """Return whether the parameters that this module gathers are; modules inside may gather their own."""
    below = [inner for inner in module.modules() if inner is not module and is_fsdp2(inner)]
    others = {id(parameter) for inner in below for parameter in inner.parameters()}
    return not any(is_dtensor(parameter) for parameter in module.parameters() if id(parameter) not in others)


def whole_copy(model: nn.Module) -> nn.Module:
    """Return a copy of ``model`` as before ``fully_shard``: own classes, whole parameters, ties, no sharding hooks.

    A collective: every rank of the mesh calls it, and each gets the whole copy. Other attributes are deep copies.
    """
    memo: dict[int, Any] = {}
    tensors: dict[int, torch.Tensor] = {id(t): t for t in [*model.parameters(), *model.buffers()]}
    for key, tensor in tensors.items():
        memo[key] = _whole(tensor)
    modules = list(model.modules())
    for module in modules:
        kind = type(module).__mro__[2] if is_fsdp2(module) else type(module)
        memo[id(module)] = object.__new__(kind)
    for module in modules:
        copied = memo[id(module)]
        for name, value in vars(module).items():
            if not _of_distributed(value):
                vars(copied)[name] = copy.deepcopy(_without_distributed(value), memo)
    whole: nn.Module = memo[id(model)]
    return whole


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    full: torch.Tensor = tensor.full_tensor() if is_dtensor(tensor) else tensor  # type: ignore[attr-defined]
    full = full.detach().clone()
    return nn.Parameter(full, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else full


def _without_distributed(value: Any) -> Any:
    """Return a table of hooks without those of the sharding; any other value unchanged."""
    if not isinstance(value, dict) or not any(_of_distributed(entry) for entry in value.values()):
        return value
    return type(value)((key, entry) for key, entry in value.items() if not _of_distributed(entry))


def _of_distributed(value: Any) -> bool:
    """Return whether ``value`` is of torch.distributed: its state of a module, a method of that, a dict of those."""
    if isinstance(value, (nn.Module, torch.Tensor)):
        return False
    if isinstance(value, dict):
        return bool(value) and all(_of_distributed(entry) for entry in value.values()) and not _is_hook_table(value)
    owner = getattr(value, "__self__", value)
    return f"{getattr(value, '__module__', '')} {type(owner).__module__}".find("torch.distributed") >= 0


def _is_hook_table(value: dict[Any, Any]) -> bool:
    return all(isinstance(key, int) for key in value)
