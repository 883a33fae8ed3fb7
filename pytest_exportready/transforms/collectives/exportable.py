"""Functional collectives for a ``forward`` that is exported.

Each returns a new tensor and does not change its input. ``group`` is a name given by ``name_group``, which the program
keeps. They have no gradients. A program runs its collectives in the order of its graph; the stage ``graphs`` verifies
that all ranks have the same graph.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from pytest_exportready.analysis.torch_internals.groups import functional_collectives
from pytest_exportready.transforms.collectives.groups import named_group


def exportable_all_reduce(x: Tensor, group: str, op: str = "sum") -> Tensor:
    """Return ``x`` of all ranks reduced by ``op`` (sum, avg, product, min, max, ...), in the same shape."""
    name, _ = named_group(group)
    ops = functional_collectives()
    return _waited(ops.all_reduce(x.contiguous(), op, name))


def exportable_all_gather(x: Tensor, group: str, dim: int = 0) -> Tensor:
    """Return ``x`` of all ranks, concatenated in dimension ``dim``."""
    name, size = named_group(group)
    ops = functional_collectives()
    rows = x.movedim(dim, 0).contiguous()
    return _waited(ops.all_gather_into_tensor(rows, size, name)).movedim(0, dim)


def exportable_reduce_scatter(x: Tensor, group: str, op: str = "sum", dim: int = 0) -> Tensor:
    """Return the part of this rank, in dimension ``dim``, of ``x`` of all ranks reduced by ``op``.

    Raises:
        ValueError: The size of ``dim`` is not divisible by the number of ranks.
    """
    name, size = named_group(group)
    _divisible(x, dim, size, "exportable_reduce_scatter")
    ops = functional_collectives()
    rows = x.movedim(dim, 0).contiguous()
    return _waited(ops.reduce_scatter_tensor(rows, op, size, name)).movedim(0, dim)


def exportable_all_to_all(
    x: Tensor, group: str, output_splits: Sequence[int] | None = None, input_splits: Sequence[int] | None = None
) -> Tensor:
    """Send a block of rows of ``x`` to each rank; return the blocks received from all ranks, concatenated.

    Args:
        output_splits: Rows received from each rank; equal parts by default.
        input_splits: Rows sent to each rank; equal parts by default.

    Raises:
        ValueError: The rows are not divisible by the number of ranks.
    """
    name, size = named_group(group)
    if input_splits is None or output_splits is None:
        _divisible(x, 0, size, "exportable_all_to_all")
    equal = [x.shape[0] // size] * size
    ops = functional_collectives()
    into, out = list(output_splits or equal), list(input_splits or equal)
    return _waited(ops.all_to_all_single(x.contiguous(), into, out, name))


def exportable_broadcast(x: Tensor, group: str, source: int = 0) -> Tensor:
    """Return ``x`` of rank ``source`` of the group, on every rank."""
    name, _ = named_group(group)
    return _waited(functional_collectives().broadcast(x.contiguous(), source, name))


def _waited(result: Tensor) -> Tensor:
    waited: Tensor = functional_collectives().wait_tensor(result)
    return waited


def _divisible(x: Tensor, dim: int, size: int, what: str) -> None:
    if isinstance(x.shape[dim], int) and x.shape[dim] % size:
        raise ValueError(f"{what}: dimension {dim} of size {x.shape[dim]} is not divisible by {size} ranks")
