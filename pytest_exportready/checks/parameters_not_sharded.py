"""Every parameter is whole on the rank that exports: nothing is sharded.

``fully_shard`` leaves DTensors of which each rank holds a part: ``torch.export`` fails with a message about something
else. After ``unshard()`` it succeeds, and the program fails when it runs, for the memory is
taken back. FullyShardedDataParallel keeps flat parameters that cannot be traced. On one rank some of this works
by chance. What can be exported is a plain module with the whole state dict.

Bad:  ``fully_shard(model); ...; export(model)``
Good: ``plain.load_state_dict(get_model_state_dict(model, options=StateDictOptions(full_state_dict=True)))``
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import nn

from pytest_exportready.analysis.module.sharding import sharded_parameters, sharding_modules
from pytest_exportready.analysis.torch_internals.modules import is_fsdp1
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import counted, few
from pytest_exportready.checks._check import Check, Subject

RULE = Rule("ER318", "parameters_not_sharded")

GATHER = (
    "on every rank: state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True)); "
    "plain.load_state_dict(state); export plain"
)


def inspect(subject: Subject) -> Iterator[Finding]:
    parts = sharded_parameters(subject.model)
    modules = sharding_modules(subject.model)
    flat = [name for name, module in modules.items() if is_fsdp1(module)]
    if flat:
        shown = few(
            (f"{name} is FullyShardedDataParallel" if name else "root is FullyShardedDataParallel") for name in flat
        )
        yield RULE.error(flat[0], f"{shown}: its parameters are sharded and flat.", GATHER)
    elif parts:
        placements = ", ".join(dict.fromkeys(parts.values()))
        yield RULE.error(
            next(iter(parts)),
            f"{counted(len(parts), 'tensor')} sharded over the ranks (DTensor, {placements}): {few(parts, 6)}.",
            f"{GATHER}; or prepare_for_export(model) on every rank",
        )
    elif modules:
        held = [name for name, _ in subject.model.named_parameters()]
        yield RULE.error(
            next(iter(modules)),
            f"{few(modules)} under fully_shard, unsharded for the moment: {few(held, 6)}. The program's weights vanish "
            "with the next reshard().",
            GATHER,
        )


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
