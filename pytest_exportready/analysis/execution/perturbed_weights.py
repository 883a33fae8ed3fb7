"""Perturb the weights of a module whose output is constant, so that the output depends on the inputs.

A head that starts at zero, or a signal that vanishes between untrained layers, makes every comparison of outputs
vacuous. The exported program is the same with other weights, and with these a comparison can fail.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
from torch import nn

from pytest_exportready.analysis.execution.call import Call, run
from pytest_exportready.analysis.execution.eager_reference import EagerReference
from pytest_exportready.analysis.torch_internals.modules import is_batchnorm

_DEVIATION = 0.02  # of truncated normal initialisations in use (BERT, ViT)


def perturbed_outputs(reference: EagerReference, calls: list[Call]) -> tuple[dict[str, torch.Tensor], list[Any]]:
    """Return perturbed values of the parameters and buffers, and the outputs for ``calls`` with these values."""
    with reference.in_eval_mode():
        module = reference.module
        perturb(module, calls[0])
        named = [*module.named_parameters(), *module.named_buffers()]
        return {name: tensor.detach().clone() for name, tensor in named}, run(module, calls)


def perturb(module: nn.Module, call: Call) -> None:
    """Perturb ``module``, which is in eval mode, in place.

    Parameters that are all zero get normal values. BatchNorm layers get the statistics of ``call`` if they can run in
    training mode.
    """
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
