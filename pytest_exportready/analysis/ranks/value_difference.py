"""Measure how far the tensors of ranks differ, in summary numbers and never in contents."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pytest_exportready.analysis.execution.compare import wide
from pytest_exportready.analysis.program.tensor_hash import pieces
from pytest_exportready.analysis.ranks.comparison import Difference
from pytest_exportready.analysis.ranks.exchange import Meeting
from pytest_exportready.case.wording import counted

_EACH, _TOGETHER = 4 << 20, 16 << 20  # bytes of tensors that are sent


@dataclass(frozen=True)
class Distance:
    """How far a tensor is from the reference."""

    size: float
    """Largest absolute difference over the largest absolute value of the reference; of integers the share of values
    that differ. 0 if only bits differ (0.0 and -0.0, two kinds of NaN), inf if it was not measured."""
    summary: str  # a predicate (``is up to 0.1 off``), or the tensor's own numbers if it was not measured


def distances(
    differing: Sequence[Difference], tensors: Mapping[str, Tensor], meeting: Meeting
) -> dict[str, dict[int, Distance]]:
    """Return by tensor's name and rank how far each rank is from the reference of that Difference.

    Every rank calls it with the same ``differing``, all of values. The references send what is small enough (4 MiB
    each, 16 MiB together); of the rest each rank reports minimum, maximum and mean.
    """
    room, sent = _TOGETHER, dict[str, Tensor]()
    for difference in differing:
        tensor = tensors[difference.where].detach()
        if _is_plain(tensor) and tensor.nbytes <= min(_EACH, room):
            room -= tensor.nbytes
            if difference.reference == meeting.rank:
                sent[difference.where] = tensor.cpu().clone()
    references: dict[str, Tensor] = {}
    for payload in meeting.gather("tensors", _packed(sent)):
        references |= torch.load(io.BytesIO(payload), weights_only=True) if payload else {}
    own = {d.where: _measured(tensors[d.where].detach(), references.get(d.where)) for d in differing}
    everyone = meeting.gather_json("distances", {name: (d.size, d.summary) for name, d in own.items()})
    by_rank = dict(zip(meeting.ranks, everyone, strict=True))
    return {d.where: {rank: Distance(*by_rank[rank][d.where]) for rank in meeting.ranks} for d in differing}


def _packed(tensors: dict[str, Tensor]) -> bytes:
    if not tensors:
        return b""
    file = io.BytesIO()
    torch.save(tensors, file)
    return file.getvalue()


def _is_plain(tensor: Tensor) -> bool:
    plain = tensor.layout is torch.strided and type(tensor) in (Tensor, torch.nn.Parameter)
    return plain and not (tensor.is_quantized or tensor.is_meta)


def _measured(tensor: Tensor, reference: Tensor | None) -> Distance:
    if not _is_plain(tensor):
        return Distance(float("inf"), "")
    if reference is None or reference.shape != tensor.shape:
        return Distance(float("inf"), _numbers(tensor))
    if not (tensor.is_floating_point() or tensor.is_complex()):
        differ = int((reference != tensor.cpu()).sum())
        return Distance(differ / tensor.numel(), f"differs in {differ} of {counted(tensor.numel(), 'value')}")
    a, b = wide(reference), wide(tensor)
    if bool((a.isfinite() != b.isfinite()).any()):
        return Distance(float("inf"), "is not finite in other places")
    finite = a.isfinite()
    largest = float((a[finite] - b[finite]).abs().max()) if bool(finite.any()) else 0.0
    scale = float(a[finite].abs().max()) if bool(finite.any()) else 0.0
    relative = largest / scale if scale else (float("inf") if largest else 0.0)
    return Distance(relative, f"is up to {largest:.3g} off (largest value {scale:.3g})")


def _numbers(tensor: Tensor) -> str:
    if not tensor.is_floating_point() or not tensor.numel():
        return ""
    least, most, total = float("inf"), -float("inf"), 0.0
    for piece in pieces(tensor):
        values = wide(piece)
        least, most, total = (
            min(least, float(values.min())),
            max(most, float(values.max())),
            total + float(values.sum()),
        )
    return f"has min {least:.3g}, max {most:.3g}, mean {total / tensor.numel():.6g}"
