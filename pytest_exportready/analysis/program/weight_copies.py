"""Constants of a program that are copies of one of its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn
from torch.export import ExportedProgram

from pytest_exportready.analysis.module.tensor_values import readable, view_identity

_PROBED = 4096  # values examined before all are compared
DISTINCT = 8  # with fewer different values (zeros, ones, masks) tensors may be equal by chance


@dataclass(frozen=True)
class CopiedWeight:
    """A constant with the values of a parameter."""

    constant: str  # its name in the program
    weight: str  # name of the parameter
    form: str  # what turns the parameter into the constant, such as ``.t()``


def copied_weights(program: ExportedProgram) -> Iterator[CopiedWeight]:
    """Yield each constant with the values of a parameter: unchanged, transposed or reshaped, in any dtype.

    Constants that share the memory of the parameter are left to ``frozen_weights``.
    """
    weights = {n: t for n, t in program.state_dict.items() if isinstance(t, nn.Parameter) and _comparable(t)}
    sizes: dict[int, list[str]] = {}
    for name, weight in weights.items():
        sizes.setdefault(weight.numel(), []).append(name)
    for constant, value in program.constants.items():
        if isinstance(value, torch.Tensor) and _comparable(value) and value.numel() in sizes and _is_varied(value):
            for name in sizes[value.numel()]:
                form = _form(value, weights[name].detach())
                if form is not None and view_identity(value) != view_identity(weights[name]):
                    yield CopiedWeight(constant, name, form)
                    break


def same_numbers(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors have the same shape, and the same values in the dtype of ``one``.

    Compared row by row, without a copy of the whole.
    """
    if one.shape != other.shape or one.device != other.device:
        return False
    rows = zip(one, other, strict=True) if one.dim() > 1 else ((one, other),)
    return all(torch.equal(a, b.to(a.dtype)) for a, b in rows)


def _form(value: torch.Tensor, weight: torch.Tensor) -> str | None:
    if same_numbers(value, weight):
        return ""
    if value.dim() == weight.dim() == 2 and same_numbers(value, weight.t()):
        return ".t()"
    if value.shape != weight.shape and value.is_contiguous() and weight.is_contiguous():
        return f".view({', '.join(map(str, value.shape))})" if same_numbers(value, weight.view(value.shape)) else None
    return None


def _comparable(tensor: torch.Tensor) -> bool:
    plain = readable(tensor) and tensor.layout == torch.strided and tensor.is_floating_point()
    return plain and tensor.numel() >= DISTINCT


def _is_varied(value: torch.Tensor) -> bool:
    rows = max(1, _PROBED * value.shape[0] // value.numel())
    return len(set(value[:rows].reshape(-1)[:_PROBED].tolist())) >= DISTINCT
