"""Kernels for the pretended CUDA, which compute on the host: a CPU tensor can share the memory of its devices.

With the environment variable PRETENDED_TF32, convolutions and products of float32 are rounded as on a GPU.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

_ADDED = ("copy_", "convolution", "convolution_backward")  # composite: they choose a library of CUDA by the device
_KEPT = ("empty.memory_format", "empty_strided", "resize_", "record_stream", "is_pinned", "_pin_memory")
_OF_TENSOR_CORES = ("convolution", "convolution_backward", "mm", "addmm", "bmm", "baddbmm")
_MATH = 0  # of torch.nn.attention.SDPBackend
_library = torch.library.Library("aten", "IMPL", "CUDA")


def register() -> None:
    """Replace the CUDA kernels of aten."""
    if "PRETENDED_GPUS" not in os.environ:
        return
    torch.backends.cudnn.enabled = False
    for enable in ("flash", "mem_efficient", "cudnn"):
        getattr(torch.backends.cuda, f"enable_{enable}_sdp")(False)
    if torch.distributed.is_available():
        torch.distributed.init_process_group = _with_gloo(torch.distributed.init_process_group)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a kernel is overridden
        for name in (*_registered(), *_ADDED):
            _library.impl(name, _kernel(name))


def _with_gloo(init_process_group: Callable[..., None]) -> Callable[..., None]:
    """Replace NCCL by gloo, which copies tensors of a GPU to the host."""

    def init(backend: str | None = None, *args: Any, **kwargs: Any) -> None:
        init_process_group(backend and backend.replace("nccl", "gloo"), *args, **kwargs)

    return init


def _registered() -> list[str]:
    """Return the operators of aten with a CUDA kernel that computes something."""
    names = (name[6:] for name in torch._C._dispatch_get_registrations_for_dispatch_key("CUDA") if name[:6] == "aten::")
    return [name for name in names if not (name in _KEPT or name.startswith("set_.") or _is_view(_operator(name)))]


def _operator(name: str) -> torch._ops.OpOverload:
    packet, _, overload = name.partition(".")
    operator: torch._ops.OpOverload = getattr(getattr(torch.ops.aten, packet), overload or "default")
    return operator


def _is_view(operator: torch._ops.OpOverload) -> bool:
    return any(one.alias_info is not None and not one.alias_info.is_write for one in operator._schema.returns)


def _kernel(name: str) -> Callable[..., Any]:
    if name == "_fused_sdp_choice":
        return lambda *_, **__: _MATH
    compute = _WITHOUT_CPU_KERNEL.get(name) or _operator(name)
    if name.partition(".")[0] in _OF_TENSOR_CORES and "PRETENDED_TF32" in os.environ:
        compute = partial(_rounded, compute, name)
    return partial(_on_host, compute, _operator(name)._schema)


def _rounded(compute: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
    """Compute with the 10 bits of TF32, if torch allows it."""
    of_conv = name.startswith("convolution")
    if torch.backends.cudnn.allow_tf32 if of_conv else torch.backends.cuda.matmul.allow_tf32:
        args, kwargs = tree_map(lambda x: _tf32(x) if isinstance(x, Tensor) else x, (args, kwargs))
    return compute(*args, **kwargs)


def _tf32(tensor: Tensor) -> Tensor:
    if tensor.dtype != torch.float32:
        return tensor
    return ((tensor.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def _lstm_cell(inputs: Tensor, hidden: Tensor, cell: Tensor, *biases: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    gates = sum((bias for bias in biases if bias is not None), inputs + hidden)
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    new = f * cell + i * g
    return o * new.tanh(), new, torch.cat([i, f, g, o], 1)


def _lstm_cell_backward(
    of_hidden: Tensor | None, of_cell: Tensor | None, cell: Tensor, new: Tensor, gates: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    i, f, g, o = gates.chunk(4, 1)
    hidden = torch.zeros_like(new) if of_hidden is None else of_hidden
    through = hidden * o * (1 - new.tanh() ** 2) + (0 if of_cell is None else of_cell)
    parts = (
        through * g * i * (1 - i),
        through * cell * f * (1 - f),
        through * i * (1 - g**2),
        hidden * new.tanh() * o * (1 - o),
    )
    grads = torch.cat(parts, 1)
    return grads, through * f, grads.sum(0) if has_bias else None


_WITHOUT_CPU_KERNEL = {
    "_thnn_fused_lstm_cell": _lstm_cell,
    "_thnn_fused_lstm_cell_backward_impl": _lstm_cell_backward,
}


def _on_host(compute: Callable[..., Any], schema: Any, *args: Any, **kwargs: Any) -> Any:
    """Run ``compute`` on CPU tensors that share the memory of its CUDA tensors."""
    torch.cuda.synchronize()
    args = tuple(map(_wrapped, args, schema.arguments))
    given: dict[int, Tensor] = {}
    devices: list[torch.device] = []

    def to_host(value: Any) -> Any:
        if isinstance(value, Tensor) and value.is_cuda:
            devices.append(value.device)
            shared = _shared(value)
            given[id(shared)] = value
            return shared
        if isinstance(value, torch.device) and value.type == "cuda":
            devices.append(value)
            return torch.device("cpu")
        return _generator(value) if isinstance(value, torch.Generator) and value.device.type == "cuda" else value

    def to_device(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        if id(value) in given:
            return given[id(value)]
        result = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=devices[0])
        _shared(result).copy_(value)
        return result

    host_args, host_kwargs = tree_map(to_host, (args, kwargs))
    places = {one.device for one in given.values() if one.dim()}
    if len(places) > 1 and schema.name != "aten::copy_":
        one, other = sorted(places, key=str)[:2]
        raise RuntimeError(f"Expected all tensors to be on the same device, but found at least two: {one} and {other}!")
    if "generator" in (one.name for one in schema.arguments) and host_kwargs.get("generator") is None:
        host_kwargs["generator"] = _generator(torch.cuda.default_generators[(devices[0].index or 0)])
    try:
        result = compute(*host_args, **host_kwargs)
    except IndexError:  # a GPU reports it later, and ends the context
        ctypes.CDLL(None).pretended_cuda_lose()
        torch.cuda.synchronize()
    for shared, tensor in ((one, given[id(one)]) for one in _tensors(host_args, host_kwargs) if id(one) in given):
        if shared.shape != tensor.shape:  # an ``out`` argument was resized
            tensor.resize_(shared.shape)
            _shared(tensor).copy_(shared)
    return tree_map(to_device, result)


def _wrapped(value: Any, argument: Any) -> Any:
    """Return a number as the tensor that the operator declares."""
    return torch.tensor(value) if str(argument.type) == "Tensor" and isinstance(value, (int, float)) else value


def _tensors(*values: Any) -> list[Tensor]:
    found: list[Tensor] = []
    tree_map(lambda value: found.append(value) if isinstance(value, Tensor) else None, values)
    return found


def _shared(tensor: Tensor) -> Tensor:
    """Return a CPU tensor with the memory of ``tensor``."""
    storage = tensor.untyped_storage()
    if not storage.nbytes():
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    memory = (ctypes.c_char * storage.nbytes()).from_address(storage.data_ptr())
    host = torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()
    return torch.empty(0, dtype=tensor.dtype).set_(host, tensor.storage_offset(), tensor.shape, tensor.stride())


def _generator(generator: torch.Generator) -> torch.Generator:
    """Return a CPU generator for the state of a CUDA generator, and advance the latter."""
    offset = generator.get_offset()
    generator.set_offset(offset + 4)
    return torch.Generator().manual_seed(generator.initial_seed() + offset)
