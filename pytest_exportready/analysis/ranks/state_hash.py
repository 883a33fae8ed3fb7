"""A hash of a tensor's values: sensitive to order and shape, equal for equal bits, whatever the memory layout."""

from __future__ import annotations

import ctypes
import hashlib
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from pytest_exportready.analysis.torch_internals.tensors import is_dtensor, is_fake

_PIECE = 4 << 20  # bytes held besides the tensor
_COMPRESSED = {
    torch.sparse_csr: ("crow_indices", "col_indices"),
    torch.sparse_bsr: ("crow_indices", "col_indices"),
    torch.sparse_csc: ("ccol_indices", "row_indices"),
    torch.sparse_bsc: ("ccol_indices", "row_indices"),
}


def fingerprint(tensor: Tensor) -> str:
    """SHA-256 of the values as hexadecimal text, of 4 MiB at a time; in words why there is none, if so.

    NaN equals a NaN of the same bits. Of a DTensor that is sharded only what all ranks hold in common could be
    compared, which is nothing; one that is replicated is hashed. ``torch.hash_tensor`` is not used: it is an XOR, to
    which neither order nor a pair of equal values matters.
    """
    digest = hashlib.sha256()
    try:
        digest.update(f"{tensor.dtype} {sizes(tensor)}".encode())
        for part in _parts(tensor if _uninitialised(tensor) else tensor.detach()):
            for piece in pieces(part):
                _add(digest, piece)
    except _NoValues as why:
        return str(why)
    except (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError) as error:
        return f"values that cannot be read ({type(error).__name__})"
    return digest.hexdigest()


def is_hash(text: str) -> bool:
    """Whether ``fingerprint`` gave a hash, and no reason why there is none."""
    return re.fullmatch("[0-9a-f]{64}", text) is not None


def sizes(tensor: Tensor) -> tuple[int | str, ...]:
    """The shape; of what varies inside the tensor, or is not known yet, a word instead of a number."""
    if _uninitialised(tensor):
        return ("uninitialised",)
    return tuple(size if type(size) is int else "jagged" for size in tensor.shape)


class _NoValues(Exception):
    """The message says what the tensor has instead."""


def _parts(tensor: Tensor) -> Iterator[Tensor]:
    """Ordinary tensors that hold the values."""
    if tensor.is_meta or is_fake(tensor):
        raise _NoValues("no values (meta)")
    if _uninitialised(tensor):
        raise _NoValues("no values yet")
    if is_dtensor(tensor):
        sharded: Any = tensor
        if not all(placement.is_replicate() for placement in sharded.placements):
            raise _NoValues("its shard")
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


def _uninitialised(tensor: Tensor) -> bool:
    return isinstance(tensor, (torch.nn.UninitializedParameter, torch.nn.UninitializedBuffer))


def pieces(tensor: Tensor) -> Iterator[Tensor]:
    """``tensor`` in its logical order, in views and copies of 4 MiB at the most."""
    size = tensor.numel() * tensor.element_size()
    if tensor.is_contiguous():
        yield from torch.split(tensor.view(-1), max(_PIECE // tensor.element_size(), 1))
    elif size <= _PIECE:
        yield tensor
    else:
        rows = _PIECE * tensor.shape[0] // size
        for part in torch.split(tensor, max(rows, 1)):
            yield from pieces(part if rows else part[0])


def _add(digest: hashlib._Hash, piece: Tensor) -> None:
    plain = piece.resolve_conj().resolve_neg().contiguous().cpu()
    size = plain.numel() * plain.element_size()
    if size:
        digest.update((ctypes.c_char * size).from_address(plain.data_ptr()))
