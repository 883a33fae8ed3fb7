"""Every parameter is whole on the rank that exports.

Why it matters:
    `fully_shard` leaves DTensors of which each rank holds a part, and torch.export fails with an unrelated
    message. After `unshard()` it succeeds, but the program fails at run time, because the memory is freed
    again. FullyShardedDataParallel keeps flat parameters that cannot be traced. Export a plain module with
    the full state dict.

Severity:
    error: a parameter or buffer is sharded, or a module is under `fully_shard` or FullyShardedDataParallel.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import nn

from pytest_exportready.analysis.module.sharding import sharded_parameters, sharding_modules
from pytest_exportready.analysis.torch_internals.modules import is_fsdp1
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import few, subject_of
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER318", "parameters_not_sharded")

_GATHER = (
    "Load `get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))`, called on every rank, into a "
    "plain module."
)


def inspect(subject: Subject) -> Iterator[Finding]:
    parts = sharded_parameters(subject.model)
    modules = sharding_modules(subject.model)
    flat = [name for name, module in modules.items() if is_fsdp1(module)]
    if flat:
        message = f"FullyShardedDataParallel shards and flattens the parameters of {few(flat)}."
        yield RULE.error(flat[0], message, _GATHER)
    elif parts:
        placements = ", ".join(dict.fromkeys(parts.values()))
        yield RULE.error(
            next(iter(parts)),
            f"{subject_of(len(parts), 'tensor')} sharded (DTensor, {placements}): {few(parts, 6)}.",
            "Call `prepare_for_export(model)` on every rank, or load the full state dict into a plain module.",
        )
    elif modules:
        message = f"`fully_shard` is applied to {few(modules)}. The next `reshard()` frees the program's weights."
        yield RULE.error(next(iter(modules)), message, _GATHER)


def _sharded() -> Subject:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU()).eval()
    store = dist.HashStore()  # type: ignore[attr-defined]
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
    finally:
        dist.destroy_process_group()
    return Subject(model, (torch.ones(1, 2),))


CHECK = Check(
    rule=RULE,
    inspect=inspect,
    good=(lambda: Subject(nn.Linear(2, 2).eval(), (torch.ones(1, 2),)),),
    bad=(_sharded,),
)
