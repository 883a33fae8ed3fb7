"""Weights under which an answer depends on the inputs, for a module that answers every input alike.

A head that starts at zero, or a signal that dies out between layers that were never trained, makes every comparison
of outputs empty. The same module with other weights is the same program, and there a comparison can fail.
"""

from __future__ import annotations

from contextlib import suppress

import torch
from torch import nn

from pytest_exportready.analysis.execution.eager_reference import Call, run
from pytest_exportready.analysis.torch_internals.modules import is_batchnorm

_DEVIATION = 0.02  # of truncated normal initialisations in use (BERT, ViT)


def shake(module: nn.Module, call: Call) -> None:
    """Change ``module``, which is in eval mode, in place: parameters that are zero get normal values, and BatchNorm
    the statistics of ``call``, where it can run in training mode."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.is_floating_point() and parameter.numel() and not parameter.any():
                noise = torch.randn(parameter.shape, generator=generator) * _DEVIATION
                parameter.copy_(noise)
    norms = [norm for norm in module.modules() if is_batchnorm(norm) and norm.track_running_stats]
    for norm in norms:
        norm.momentum = 1.0
        norm.train()
    with suppress(ValueError):  # one value per channel
        run(module, [call])
    for norm in norms:
        norm.eval()
