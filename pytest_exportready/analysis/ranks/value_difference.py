"""How far apart the tensors of the ranks are, told in summary numbers, never in contents."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pytest_exportready.analysis.execution.compare import wide
from pytest_exportready.analysis.ranks.comparison import Difference
from pytest_exportready.analysis.ranks.gather import Table
from pytest_exportready.analysis.ranks.state_hash import pieces
from pytest_exportready.case.wording import counted

_EACH, _TOGETHER = 4 << 20, 16 << 20  # bytes of tensors that travel


@dataclass(frozen=True)
class Distance:
    """From the reference, or what this rank has where it could not be held against the reference.

    size: largest absolute difference over the largest absolute value of the reference, of integers the share that
    differs; 0 when only the bits do (0.0 and -0.0, two kinds of NaN); inf when not measured. told: in words.
    """

    size: float
    told: str


def distances(
    differing: Sequence[Difference], tensors: Mapping[str, Tensor], table: Table
) -> dict[str, dict[int, Distance]]:
    """By tensor's name and rank, how far each rank is from the reference of that Difference.

    Every rank calls it with the same ``differing``, all of values. The references send what is small enough (4 MiB
    each, 16 MiB together); of the rest each rank tells minimum, maximum and mean.
    """
    room, sent = _TOGETHER, dict[str, Tensor]()
    for difference in differing:
        tensor = tensors[difference.where].detach()
        size = tensor.numel() * tensor.element_size()
        if _plain(tensor) and size <= min(_EACH, room):
            room -= size
            if difference.reference == table.here:
                sent[difference.where] = tensor.cpu().clone()
    references: dict[str, Tensor] = {}
    for payload in table.gather("tensors", _packed(sent)):
        references |= torch.load(io.BytesIO(payload), weights_only=True) if payload else {}
    mine = {d.where: _measured(tensors[d.where].detach(), references.get(d.where)) for d in differing}
    everyone = table.gather_json("distances", {name: (d.size, d.told) for name, d in mine.items()})
    by_rank = dict(zip(table.ranks, everyone, strict=True))
    return {d.where: {rank: Distance(*by_rank[rank][d.where]) for rank in table.ranks} for d in differing}


def _packed(tensors: dict[str, Tensor]) -> bytes:
    if not tensors:
        return b""
    file = io.BytesIO()
    torch.save(tensors, file)
    return file.getvalue()


def _plain(tensor: Tensor) -> bool:
    return (
        tensor.layout is torch.strided
        and type(tensor) in (Tensor, torch.nn.Parameter)
        and not (tensor.is_quantized or tensor.is_meta)
    )


def _measured(tensor: Tensor, reference: Tensor | None) -> Distance:
    if not _plain(tensor):
        return Distance(float("inf"), "")
    if reference is None or reference.shape != tensor.shape:
        return Distance(float("inf"), _summary(tensor))
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
    return Distance(relative, f"is up to {largest:.3g} off, where the largest value is {scale:.3g}")


def _summary(tensor: Tensor) -> str:
    if not tensor.is_floating_point() or not tensor.numel():
        return ""
    least, most, total = float("inf"), -float("inf"), 0.0
    for piece in pieces(tensor):
        values = wide(piece)
        least, most = min(least, float(values.min())), max(most, float(values.max()))
        total += float(values.sum())
    return f"min {least:.3g}, max {most:.3g}, mean {total / tensor.numel():.6g}"
