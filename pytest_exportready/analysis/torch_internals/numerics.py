"""The precision in which GPUs compute: settings of torch that make two correct computations differ."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_CUDNN: Any = torch.backends.cudnn  # its parts are not typed
_FLAGS = (
    (torch.backends.cudnn, "benchmark", False),  # the second call may run another algorithm than the first
    (torch.backends.cuda.matmul, "allow_fp16_reduced_precision_reduction", False),
    (torch.backends.cuda.matmul, "allow_bf16_reduced_precision_reduction", False),
)
_TF32 = ((torch.backends.cudnn, "allow_tf32", False),)
_TF32_BY_OPERATOR = (
    (_CUDNN.conv, "fp32_precision", "ieee"),
    (_CUDNN.rnn, "fp32_precision", "ieee"),
    (torch.backends.cuda.matmul, "fp32_precision", "ieee"),
)
"""Once one of these is set, torch raises when the flags of ``_TF32`` are read."""


@contextmanager
def full_precision() -> Iterator[None]:
    """Let GPUs compute in the dtype of the tensors, without TF32 and shorter sums, and with one algorithm each.

    With TF32, which convolutions use by default, outputs differ by 1e-3 of their rms where they otherwise differ by
    1e-6.
    """
    legacy = _reads_legacy_flags()
    flags = (*_FLAGS, *(_TF32 if legacy else _TF32_BY_OPERATOR))
    before: list[Any] = [getattr(owner, name) for owner, name, _ in flags]
    matmul = torch.get_float32_matmul_precision() if legacy else ""
    try:
        for owner, name, value in flags:
            setattr(owner, name, value)
        if legacy:
            torch.set_float32_matmul_precision("highest")
        yield
    finally:
        for (owner, name, _), value in zip(flags, before, strict=True):
            setattr(owner, name, value)
        if legacy:
            torch.set_float32_matmul_precision(matmul)


def precision_settings() -> tuple[object, ...]:
    """Return all settings that change what kernels compute."""
    cuda: Any = torch.backends.cuda
    return (
        tuple(getattr(owner, name) for owner, name, _ in (*_FLAGS, *_TF32_BY_OPERATOR)),
        (cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.math_sdp_enabled(), cuda.cudnn_sdp_enabled()),
        (torch.backends.mkldnn.enabled, torch.backends.cudnn.enabled, torch.backends.cudnn.deterministic),
        torch.get_float32_matmul_precision(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )


def _reads_legacy_flags() -> bool:
    try:
        return isinstance(torch.backends.cudnn.allow_tf32, bool)
    except RuntimeError:  # the user has set the precision of single operators
        return False
