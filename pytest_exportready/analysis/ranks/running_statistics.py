"""Measure how far the running statistics of norms differ, and whether one training step explains it.

DistributedDataParallel copies rank 0's buffers to all ranks before each forward (``broadcast_buffers=True``), so that
after the last step rank r has (1 - m) * S + m * batch_r of a common S: every healthy training ends with statistics
that differ by one step of momentum m. What matters is the distance in units of the norm itself.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from pytest_exportready.analysis.ranks.exchange import Meeting

if TYPE_CHECKING:
    from pytest_exportready.analysis.torch_internals.modules import Norm

STATISTICS = ("running_mean", "running_var")
_COUNT = "num_batches_tracked"

# Limits, measured on healthy and on unsynchronized trainings (tests/analysis/ranks/test_running_statistics.py): by how
# many standard deviations the batches of two ranks may differ, in the root mean square of a layer's channels and in its
# worst channel, and how many times larger a rank's batch variance may be. A momentum below _SMALLEST_STEP counts as it:
# several steps without synchronization (no_sync, gradient accumulation) are healthy too.
_SHIFT, _WORST_SHIFT, _SPREAD = 5.0, 20.0, 15.0
_SMALLEST_STEP = 0.04
_DEFAULT_STEP = 0.1
_FEW = 3  # batches before which the last one makes up half of the statistics


@dataclass(frozen=True)
class Drift:
    """Difference of one norm on one rank from rank 0."""

    shift: float  # of the means, in standard deviations: root mean square over the channels
    worst: float  # of the means, in standard deviations: largest of all channels
    spread: float
    """Logarithm of the ratio of the variances, averaged over the channels before: a rare large value changes the
    variance of one channel by orders of magnitude, but as often on one rank as on the other."""
    step: float  # momentum; 0 if all ranks must have the same (SyncBatchNorm), inf after hardly any training
    batches: int  # of ``num_batches_tracked``

    @property
    def differs(self) -> bool:
        return bool(self.worst or self.spread or self.batches)

    @property
    def explained(self) -> bool:
        """Whether one training step on other data explains it.

        Under ``torch.distributed.algorithms.Join`` the rank with more data counts one batch more.
        """
        if not self.step:
            return not self.differs
        step = max(self.step, _SMALLEST_STEP)
        spread = math.log(1 + _SPREAD * step)
        near = self.shift <= _SHIFT * step and self.worst <= _WORST_SHIFT * step and self.spread <= spread
        return near and abs(self.batches) <= 1


def drifts(norms: dict[str, Norm], meeting: Meeting) -> tuple[dict[str, dict[int, Drift]], dict[str, Tensor]]:
    """Return the drift of each norm by name and rank, and the statistics of rank 0 by their qualified names.

    Every rank calls it with norms of the same names and shapes.

    Raises:
        AbsentRanks: Some ranks did not take part.
    """
    own = {f"{name}.{key}": _tensor(norm, key) for name, norm in norms.items() for key in (*STATISTICS, _COUNT)}
    file = io.BytesIO()
    torch.save(own, file)
    sent = meeting.gather("statistics", file.getvalue() if meeting.is_first else b"")[0]
    reference = torch.load(io.BytesIO(sent), weights_only=True)
    measured = {name: asdict(drift(norm, _of(name, reference))) for name, norm in norms.items()}
    everyone = dict(zip(meeting.ranks, meeting.gather_json("drifts", measured), strict=True))
    return {name: {rank: Drift(**each[name]) for rank, each in everyone.items()} for name in norms}, reference


def drift(norm: Norm, reference: Sequence[Tensor]) -> Drift:
    """Return how far ``norm`` differs from ``reference``.

    Args:
        reference: ``running_mean``, ``running_var`` and ``num_batches_tracked`` of the same norm on another rank.
    """
    mean, variance, count = (_tensor(norm, key) for key in (*STATISTICS, _COUNT))
    means, variances = torch.stack([mean, reference[0]]), torch.stack([variance, reference[1]]) + norm.eps
    shifts = (means[0] - means[1]).abs() / variances.max(0).values.sqrt()
    shares = variances / variances.max(0).values  # of each channel, so that no channel outweighs another
    spread = (shares[0].mean() / shares[1].mean()).log().abs()
    return Drift(
        shift=float(shifts.square().mean().sqrt()),
        worst=float(shifts.max()) if shifts.numel() else 0.0,
        spread=float(spread),
        step=_step(norm),
        batches=int(count) - int(reference[2]),
    )


def _of(name: str, tensors: dict[str, Tensor]) -> list[Tensor]:
    return [tensors[f"{name}.{key}"] for key in (*STATISTICS, _COUNT)]


def _tensor(norm: Norm, key: str) -> Tensor:
    """Return a statistic in float64 on the CPU; for one that the norm does not track, a value without effect."""
    tensor = getattr(norm, key)
    if tensor is None:
        return torch.zeros(()) if key == _COUNT else torch.full((norm.num_features,), float(key == "running_var"))
    found: Tensor = tensor.detach().to("cpu", torch.float64, copy=True)
    return found


def _step(norm: Norm) -> float:
    seen = None if norm.num_batches_tracked is None else int(norm.num_batches_tracked)
    if seen is not None and seen < _FEW:
        return math.inf
    if isinstance(norm, nn.SyncBatchNorm) and norm.process_group in (None, torch.distributed.group.WORLD):
        return 0.0
    if norm.momentum is None:  # the average of all batches
        return _DEFAULT_STEP if seen is None else 1 / seen
    return float(norm.momentum)
