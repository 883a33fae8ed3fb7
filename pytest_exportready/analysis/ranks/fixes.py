"""What to do about each kind of difference between ranks."""

from __future__ import annotations

from pytest_exportready.analysis.ranks.comparison import PRESENCE, Difference
from pytest_exportready.analysis.ranks.rank_state import CLASS, GRADIENT, MODE, PARAMETER, SHAPE, STATISTIC, TIE, VALUES

BROADCAST = "`for b in model.buffers(): torch.distributed.broadcast(b, 0)`"
# torch 2.15 renames the argument, and warns of the old name
SYNCHRONIZE = (
    "Use DistributedDataParallel without `broadcast_buffers=False` (`forward_sync_buffers`) or SyncBatchNorm, or run "
    f"{BROADCAST} before exporting."
)
_BROADCAST_PARAMETERS = (
    "Start every rank from one state and let DistributedDataParallel average the gradients, or run "
    "`for p in model.parameters(): torch.distributed.broadcast(p.data, 0)` before exporting."
)
_SAME_MODEL = "Build and load the same model on every rank, outside of any `if rank == 0:`."
_ON_PURPOSE = " If ranks have different parts on purpose, pass `skip_ddp_validation=True`."
_BY_FIELD = {
    MODE: "Call `model.eval()` on every rank, outside of any `if rank == 0:`.",
    "requires_grad": "Freeze the same parameters on every rank before wrapping the model.",
    "dtype": "Convert the model to one dtype on every rank, outside of any `if rank == 0:`.",
    "device": "Move the model to the same kind of device on every rank.",
    "stride": "Give the model the same memory format on every rank.",
    TIE: "Tie the same weights on every rank, after loading the checkpoint.",
    GRADIENT: "Compare after `backward()` of a DistributedDataParallel step, outside of `no_sync()`.",
    **dict.fromkeys((PRESENCE, CLASS, SHAPE), _SAME_MODEL + _ON_PURPOSE),
}


def fix_of(difference: Difference) -> str:
    """Return what to do about ``difference``."""
    if difference.field != VALUES:
        return _BY_FIELD.get(difference.field, _SAME_MODEL)
    if difference.kind == PARAMETER:
        return _BROADCAST_PARAMETERS
    if difference.kind == STATISTIC:
        return SYNCHRONIZE
    return f"Run {BROADCAST}." if "buffer" in difference.kind else "Give every rank the same tensors."
