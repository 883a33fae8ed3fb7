"""The precision in which kernels compute: settings of torch that make two correct computations differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import torch

_BACKENDS: Any = torch.backends  # its parts are not typed
_DEFAULTS = (_BACKENDS, _BACKENDS.cudnn, _BACKENDS.mkldnn)  # of the operators that have no precision of their own
_CUDNN = (_BACKENDS.cudnn.conv, _BACKENDS.cudnn.rnn)
_PRODUCTS = (_BACKENDS.cuda.matmul, _BACKENDS.mkldnn.matmul, _BACKENDS.mkldnn.conv, _BACKENDS.mkldnn.rnn)
_FLAGS = (
    (_BACKENDS.cudnn, "benchmark"),  # the second call may run another algorithm than the first
    (_BACKENDS.cuda.matmul, "allow_fp16_reduced_precision_reduction"),
    (_BACKENDS.cuda.matmul, "allow_bf16_reduced_precision_reduction"),
)


@contextmanager
def full_precision() -> Iterator[None]:
    """Let kernels compute in the dtype of the tensors, without TF32 and shorter sums, and with one algorithm each.

    With TF32, which convolutions on a GPU use by default, outputs differ by 1e-3 of their rms where they otherwise
    differ by 1e-6. torch has an old and a new interface for TF32. The old one sets both; it cannot be read after the
    new one was used for one operator, and then torch.export fails, too.
    """
    flags = [(owner, name, getattr(owner, name)) for owner, name in _FLAGS]
    defaults = _restore_new(_DEFAULTS)
    in_cudnn = _restoring(lambda: _BACKENDS.cudnn.allow_tf32, _set_tf32, _CUDNN)
    in_products = _restoring(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, _PRODUCTS)
    try:
        for owner, name in _FLAGS:
            setattr(owner, name, False)
        for one in _DEFAULTS:
            one.fp32_precision = "ieee"
        _set_tf32(False)
        torch.set_float32_matmul_precision("highest")
        yield
    finally:
        for owner, name, value in flags:
            setattr(owner, name, value)
        defaults()
        in_cudnn()
        in_products()


def precision_settings() -> tuple[object, ...]:
    """Return all settings that change what kernels compute."""
    cuda = _BACKENDS.cuda
    return (
        tuple(getattr(owner, name) for owner, name in _FLAGS),
        tuple(one.fp32_precision in ("tf32", "bf16") and one.fp32_precision for one in (*_CUDNN, *_PRODUCTS)),
        (cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.math_sdp_enabled(), cuda.cudnn_sdp_enabled()),
        (_BACKENDS.mkldnn.enabled, _BACKENDS.cudnn.enabled, _BACKENDS.cudnn.deterministic),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )


def _set_tf32(allowed: bool) -> None:
    _BACKENDS.cudnn.allow_tf32 = allowed


def _restoring(read: Callable[[], Any], write: Callable[[Any], None], operators: Sequence[Any]) -> Callable[[], None]:
    """Return a function that restores a setting of the old interface or, if it cannot be read, of each operator."""
    with suppress(RuntimeError):
        value = read()
        return lambda: write(value)
    return _restore_new(operators)


def _restore_new(owners: Sequence[Any]) -> Callable[[], None]:
    """Return a function that restores the precision of each of ``owners``."""
    before = [(owner, owner.fp32_precision) for owner in owners]

    def restore() -> None:
        for owner, precision in before:
            owner.fp32_precision = precision

    return restore
