"""Find low-rank adapters (LoRA) whose flags say that they are merged into the weights that they adapt."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import torch
from torch import nn

from pytest_exportready.analysis.module.tensor_values import readable
from pytest_exportready.analysis.torch_internals.modules import plain_attributes

_EXACT = 1e-3  # of the norm of what merging changed: several roundings, in half precision at worst


def merged_modules(model: nn.Module) -> dict[str, nn.Module]:
    """Return the modules with a merged adapter: a true attribute ``merged``, or ``merged_adapters`` of PEFT."""
    named = model.named_modules()
    return {name: m for name, m in named if _is_merged(m)}


def explained_by_merging(model: nn.Module, name: str, saved: torch.Tensor) -> bool:
    """Return whether parameter ``name`` is ``saved`` plus the product of two matrices of a merged module."""
    merged = merged_modules(model)
    owners = [module for prefix, module in merged.items() if name.startswith(f"{prefix}." if prefix else "")]
    own = model.get_parameter(name).detach() if name in dict(model.named_parameters()) else None
    if own is None or not owners or own.dim() != 2 or own.shape != saved.shape or not readable(own):
        return False
    change = (own - saved.to(own)).double()
    return any(_is_multiple(change, product) for owner in owners for product in _products(owner, own.shape))


def _is_merged(module: nn.Module) -> bool:
    flags = plain_attributes(module)
    return flags.get("merged") is True or bool(flags.get("merged_adapters"))


def _products(module: nn.Module, shape: torch.Size) -> Iterator[torch.Tensor]:
    matrices = [p.detach().double() for p in module.parameters() if p.dim() == 2 and readable(p)]
    for left, right in permutations(matrices, 2):
        if left.shape[1] == right.shape[0]:
            product = left @ right
            if product.shape == shape:
                yield product
            elif product.T.shape == shape:
                yield product.T


def _is_multiple(change: torch.Tensor, product: torch.Tensor) -> bool:
    squares = product.square().sum()
    if not squares > 0:
        return False
    factor = (change * product).sum() / squares
    return bool((change - factor * product).norm() <= _EXACT * change.norm())
