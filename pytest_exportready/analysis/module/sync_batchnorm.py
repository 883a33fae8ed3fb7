"""Convert a SyncBatchNorm to a BatchNorm that needs no process group."""

from __future__ import annotations

import torch
from torch import nn


class LocalBatchNorm(nn.BatchNorm1d):
    """A BatchNorm for inputs with any number of dimensions, which SyncBatchNorm accepts, too."""

    def _check_input_dim(self, input: torch.Tensor) -> None:  # noqa: A002  the name in torch
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")


def without_sync(norm: nn.SyncBatchNorm) -> LocalBatchNorm:
    """Return the same norm, with the same parameters and buffers (not copies) and mode."""
    local = LocalBatchNorm(
        norm.num_features, norm.eps, norm.momentum, affine=False, track_running_stats=norm.track_running_stats
    )
    local.affine = norm.affine
    local.weight, local.bias = norm.weight, norm.bias
    for name, buffer in norm.named_buffers(recurse=False):
        setattr(local, name, buffer)
    local.training = norm.training
    return local
