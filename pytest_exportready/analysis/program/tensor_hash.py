"""Hash the values of a tensor where they lie, without a copy of what is contiguous in memory."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import torch
import xxhash
from torch import Tensor

from pytest_exportready.analysis.module.tensor_values import is_uninitialized
from pytest_exportready.analysis.torch_internals.tensors import is_dtensor, is_fake

_PIECE = 4 << 20  # bytes copied at once of what is on another device or not contiguous
_COMPRESSED = {
    torch.sparse_csr: ("crow_indices", "col_indices"),
    torch.sparse_bsr: ("crow_indices", "col_indices"),
    torch.sparse_csc: ("ccol_indices", "row_indices"),
    torch.sparse_bsc: ("ccol_indices", "row_indices"),
}


class NoValues(Exception):
    """A tensor has no values, or this process does not have all of them; the message says which."""


def tensor_digest(tensor: Tensor) -> str:
    """Return a hash of dtype, layout, shape and values; without values (meta, fake, sharded) of the rest."""
    try:
        return values_digest(tensor)
    except NoValues:
        return str(_header(tensor).hexdigest())


def values_digest(tensor: Tensor) -> str:
    """Return a hash (XXH3, 128 bits) of dtype, layout, shape and values: equal for equal bits, whatever the strides.

    A NaN equals a NaN of the same bits. ``torch.hash_tensor`` is not used: it is an XOR, which depends neither on the
    order nor on pairs of equal values.

    Raises:
        NoValues: The tensor has none, or only a shard of them.
    """
    hashed = _header(tensor)
    for part in _parts(tensor if is_uninitialized(tensor) else tensor.detach()):
        for piece in pieces(part):
            dense = piece.resolve_conj().resolve_neg().contiguous().cpu()
            if dense.nbytes:
                hashed.update((ctypes.c_char * dense.nbytes).from_address(dense.data_ptr()))
    return str(hashed.hexdigest())


def sizes(tensor: Tensor) -> tuple[int | str, ...]:
    """Return the shape, with a word for a size that varies inside the tensor or is not known yet."""
    if is_uninitialized(tensor):
        return ("uninitialized",)
    return tuple(size if type(size) is int else "jagged" for size in tensor.shape)


def pieces(tensor: Tensor) -> Iterator[Tensor]:
    """Yield ``tensor`` in its logical order, in views and copies of at most 4 MiB."""
    if tensor.is_contiguous():
        yield from torch.split(tensor.view(-1), max(_PIECE // tensor.element_size(), 1))
    elif tensor.nbytes <= _PIECE:
        yield tensor
    else:
        rows = _PIECE * tensor.shape[0] // tensor.nbytes
        for part in torch.split(tensor, max(rows, 1)):
            yield from pieces(part if rows else part[0])


def _header(tensor: Tensor) -> Any:
    return xxhash.xxh3_128(f"{tensor.dtype}{tensor.layout}{sizes(tensor)}".encode())


def _parts(tensor: Tensor) -> Iterator[Tensor]:
    """Yield the dense tensors that hold the values."""
    if tensor.is_meta or is_fake(tensor):
        raise NoValues("no values (meta)")
    if is_uninitialized(tensor):
        raise NoValues("no values yet")
    if is_dtensor(tensor):
        sharded: Any = tensor
        if not all(placement.is_replicate() for placement in sharded.placements):
            raise NoValues("its shard")
        yield from _parts(sharded.to_local())
    elif hasattr(tensor, "__tensor_flatten__"):
        for name in tensor.__tensor_flatten__()[0]:
            yield from _parts(getattr(tensor, name))
    elif tensor.is_quantized:
        yield tensor.int_repr()
        if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            yield torch.tensor([tensor.q_scale(), tensor.q_zero_point()], dtype=torch.float64)
        else:
            yield from (tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points())
    elif tensor.layout is torch.sparse_coo:
        whole = tensor.coalesce()
        yield from (whole.indices(), whole.values())
    elif tensor.layout in _COMPRESSED:
        yield from (getattr(tensor, name)() for name in (*_COMPRESSED[tensor.layout], "values"))
    else:
        yield tensor if tensor.layout is torch.strided else tensor.to_dense()
