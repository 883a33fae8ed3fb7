"""The line to write against each kind of difference between ranks."""

from __future__ import annotations

from pytest_exportready.analysis.ranks.comparison import Difference
from pytest_exportready.analysis.ranks.rank_state import GRADIENT, MODE, PARAMETER, STATISTIC, VALUES

SYNCHRONISE = "for b in model.buffers(): torch.distributed.broadcast(b, 0)"
# torch 2.15 renames the argument, and warns of the old name
KEEP_SYNCHRONISED = (
    "use DistributedDataParallel without broadcast_buffers=False (forward_sync_buffers), or SyncBatchNorm"
)
ON_PURPOSE = "; where ranks hold different parts on purpose: export_ready_check(..., skip_ddp_validation=True)"
_SAME_MODEL = "build and load the same model on every rank, outside of any `if rank == 0:`"
_BY_FIELD = {
    MODE: "call model.eval() on every rank, outside of any `if rank == 0:`",
    "requires_grad": "freeze the same parameters on every rank before wrapping the model",
    "dtype": "convert the model to one dtype on every rank, outside of any `if rank == 0:`",
    "device": "move the model to the same kind of device on every rank",
    "stride": "give the model the same memory format on every rank",
    "tied to": "tie the same weights on every rank, after loading the checkpoint",
    GRADIENT: "compare after backward() of a DistributedDataParallel step, outside of no_sync()",
}


def fix_of(difference: Difference) -> str:
    """What mends ``difference``."""
    if difference.field != VALUES:
        return _BY_FIELD.get(difference.field, _SAME_MODEL)
    if difference.kind == PARAMETER:
        return (
            "start every rank from one state and let DistributedDataParallel average the gradients; before the export: "
            "for p in model.parameters(): torch.distributed.broadcast(p.data, 0)"
        )
    if difference.kind == STATISTIC:
        return f"{KEEP_SYNCHRONISED}, or before the export {SYNCHRONISE}"
    return SYNCHRONISE if "buffer" in difference.kind else "give every rank the same tensors"
