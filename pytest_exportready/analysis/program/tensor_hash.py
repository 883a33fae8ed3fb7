"""The values of a tensor, hashed where they lie: no copy of what is contiguous in memory."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import torch
import xxhash

from pytest_exportready.analysis.module.tensor_values import readable

_CHUNK = 2**26  # bytes copied at once of what lies on another device or is not contiguous


def tensor_digest(tensor: torch.Tensor) -> str:
    """Hash (XXH3, 128 bits) of dtype, layout, shape and values; without values (meta, fake, DTensor) of the rest."""
    hashed = xxhash.xxh3_128(f"{tensor.dtype}{tensor.layout}{tuple(tensor.shape)}".encode())
    for part in _parts(tensor.detach()):
        for block in _blocks(part):
            hashed.update(_bytes(block))
    return hashed.hexdigest()


def _parts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The dense tensors that a tensor consists of."""
    if tensor.is_quantized:
        yield tensor.int_repr()
        yield torch.tensor(repr((tensor.qscheme(), tensor.q_scale(), tensor.q_zero_point())).encode())
    elif not readable(tensor):
        return
    elif tensor.layout == torch.sparse_coo:
        coalesced = tensor.coalesce()
        yield from (coalesced.indices(), coalesced.values())
    elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        yield from (tensor.crow_indices(), tensor.col_indices(), tensor.values())
    elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        yield from (tensor.ccol_indices(), tensor.row_indices(), tensor.values())
    else:
        yield tensor.to_dense() if tensor.layout != torch.strided else tensor.resolve_conj().resolve_neg()


def _blocks(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Contiguous pieces on the CPU, in order."""
    if tensor.device.type == "cpu" and tensor.is_contiguous():
        yield tensor
        return
    rows = tensor.shape[0] if tensor.dim() else 1
    row = max(1, tensor.nbytes // max(rows, 1))
    if tensor.dim() and row > _CHUNK:
        for inner in tensor:
            yield from _blocks(inner)
    elif tensor.dim():
        step = max(1, _CHUNK // row)
        for start in range(0, rows, step):
            yield tensor[start : start + step].to("cpu").contiguous()
    else:
        yield tensor.to("cpu")


def _bytes(tensor: torch.Tensor) -> ctypes.Array[ctypes.c_char]:
    return (ctypes.c_char * tensor.nbytes).from_address(tensor.data_ptr()) if tensor.nbytes else (ctypes.c_char * 0)()
