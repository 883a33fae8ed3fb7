"""Fresh random inputs of the same kind as an example, and the example at another size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from pytest_exportready.pytree import flatten, unflatten
from pytest_exportready.truth import Call


def variations(call: Call, seed: int) -> Iterator[Call]:
    """Inputs with the shapes, dtypes and value ranges of ``call``: every tensor fresh, then floats only, then one at a
    time. The caller takes the first that the eager module accepts: an offsets or lengths tensor may not be varied.

    Floats are normal with the example's mean and deviation, kept within its range; integers and booleans are drawn
    from the example's own values, so that indices stay valid.
    """
    leaves, spec = flatten(call)
    tensors = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and leaf.numel()]
    floats = [i for i in tensors if leaves[i].is_floating_point() or leaves[i].is_complex()]
    seen: set[tuple[int, ...]] = set()
    for chosen in [tuple(tensors), tuple(floats), *((i,) for i in tensors)]:
        if chosen and chosen not in seen:
            seen.add(chosen)
            generator = torch.Generator().manual_seed(seed)
            fresh = [_fresh(leaf, generator) if i in chosen else leaf for i, leaf in enumerate(leaves)]
            args, kwargs = unflatten(fresh, spec)
            yield args, kwargs


def _fresh(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if like.is_complex():
        parts = torch.view_as_real(like.detach())
        return torch.view_as_complex(_fresh(parts, generator).contiguous()).requires_grad_(like.requires_grad)
    values = like.detach().cpu()
    if like.is_floating_point():
        wide = values.to(torch.float64)
        deviation = wide.std(correction=0)
        noise = torch.randn(like.shape, generator=generator, dtype=torch.float64)
        if deviation > 0:
            drawn = (wide.mean() + deviation * noise).clamp(wide.min(), wide.max())
        else:
            drawn = wide + noise * wide.abs().clamp(min=1.0)
        drawn = drawn.to(like.dtype)
    else:
        picks = torch.randint(values.numel(), (values.numel(),), generator=generator)
        drawn = values.flatten()[picks].reshape(like.shape)
    # empty_like keeps the memory format and the device of the example
    return torch.empty_like(like).copy_(drawn).detach().requires_grad_(like.requires_grad)


def resized(call: Call, sizes: Mapping[tuple[int, int], int]) -> Call:
    """``call`` with dimension ``d`` of its leaf ``i`` at ``sizes[i, d]``: cut, or repeated from its beginning."""
    leaves, spec = flatten(call)
    for (position, dim), size in sizes.items():
        leaf: Any = leaves[position]
        rows = torch.arange(size, device=leaf.device) % max(leaf.shape[dim], 1)
        leaves[position] = leaf.detach().index_select(dim, rows).requires_grad_(leaf.requires_grad)
    args, kwargs = unflatten(leaves, spec)
    return args, kwargs
