"""Make random inputs of the same kind as an example, and resize an example."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.pytree import flatten, unflatten
from pytest_exportready.analysis.module.snapshot import equal_bits


def variations(call: Call, seed: int) -> Iterator[Call]:
    """Yield random inputs with the shapes, dtypes and value ranges of ``call``, none equal to it.

    First every tensor is random, then floats only, then one tensor at a time. The caller takes the first that the
    eager module accepts: an offsets tensor, for example, cannot vary.

    Floats are normal with the example's mean and deviation, clamped to its range; integers and booleans are drawn from
    the example's own values, so that indices stay valid.
    """
    leaves, spec = flatten(call)
    tensors = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and _can_vary(leaf)]
    floats = [i for i in tensors if leaves[i].is_floating_point() or leaves[i].is_complex()]
    seen: set[tuple[int, ...]] = set()
    for chosen in [tuple(tensors), tuple(floats), *((i,) for i in tensors)]:
        if chosen and chosen not in seen:
            seen.add(chosen)
            generator = torch.Generator().manual_seed(seed)
            varied = [_random_like(leaf, generator) if i in chosen else leaf for i, leaf in enumerate(leaves)]
            if not all(equal_bits(leaves[i], varied[i]) for i in chosen):
                args, kwargs = unflatten(varied, spec)
                yield args, kwargs


def _can_vary(leaf: torch.Tensor) -> bool:
    return bool(leaf.numel()) and leaf.layout == torch.strided and not leaf.is_quantized and not leaf.is_meta


def _random_like(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if like.is_complex():
        parts = torch.view_as_real(like.detach().resolve_conj())
        return torch.view_as_complex(_random_like(parts, generator).contiguous()).requires_grad_(like.requires_grad)
    values = like.detach().cpu()
    drawn = _floats(values, generator) if like.is_floating_point() else _integers(values, generator)
    # empty_like keeps the memory format and the device of the example
    return torch.empty_like(like).copy_(drawn).detach().requires_grad_(like.requires_grad)


def _floats(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return random values; NaN and infinities keep their positions, so that a mask made of them still masks."""
    wide = values.to(torch.float64)
    finite = wide.isfinite()
    known = wide[finite]
    noise = torch.randn(wide.shape, generator=generator, dtype=torch.float64)
    if known.numel() and known.std(correction=0) > 0:
        drawn = (known.mean() + known.std(correction=0) * noise).clamp(known.min(), known.max())
    else:
        largest = torch.finfo(values.dtype).max
        drawn = (wide + noise * wide.abs().clamp(min=1.0)).clamp(-largest, largest)
    return torch.where(finite, drawn, wide).to(values.dtype)


def _integers(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    pool = values.flatten()
    if bool((pool == pool[0]).all()):  # nothing to draw from: 0 to the constant, which is valid for an index too
        top = int(pool[0])
        pool = torch.arange(2 if values.dtype == torch.bool else max(min(top, 2**15), 0) + 1)
    picks = torch.randint(pool.numel(), (values.numel(),), generator=generator)
    return pool[picks].reshape(values.shape).to(values.dtype)


def resized(call: Call, sizes: Mapping[tuple[int, int], int]) -> Call:
    """Return ``call`` with dimension ``d`` of leaf ``i`` at size ``sizes[i, d]``: cut, or repeated from its start."""
    leaves, spec = flatten(call)
    for (position, dim), size in sizes.items():
        leaf: Any = leaves[position]
        grown = leaf.detach()
        if not leaf.shape[dim]:
            grown = leaf.new_zeros([1 if d == dim else n for d, n in enumerate(leaf.shape)])
        copies = max(-(-size // grown.shape[dim]), 1)
        grown = torch.cat([grown] * copies, dim).narrow(dim, 0, size)
        memory_format = torch.channels_last if _is_channels_last(leaf) else torch.contiguous_format
        leaves[position] = grown.clone(memory_format=memory_format).requires_grad_(leaf.requires_grad)
    args, kwargs = unflatten(leaves, spec)
    return args, kwargs


def _is_channels_last(leaf: torch.Tensor) -> bool:
    return leaf.dim() == 4 and not leaf.is_contiguous() and leaf.is_contiguous(memory_format=torch.channels_last)
