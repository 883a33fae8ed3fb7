"""What is private to torch about modules: there in 2.13 to 2.15; what a newer torch has lost fails here."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.amp import GradScaler

from pytest_exportready.analysis.torch_internals.modules import (
    checkpointed_source,
    compiled_source,
    is_batchnorm,
    is_dropout,
    is_fsdp1,
    is_fsdp2,
    is_norm,
    is_persistent,
    plain_attributes,
    scaler_states,
)


def test_scaler_states() -> None:
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = GradScaler("cpu")
    assert scaler_states(scaler) == []
    assert scaler_states(GradScaler("cpu", enabled=False)) == []
    scaler.scale(model(torch.ones(1, 1)).sum()).backward()
    scaler.unscale_(optimizer)
    (state,) = scaler_states(scaler) or ()
    assert state["stage"].name == "UNSCALED"
    assert [float(found) for found in state["found_inf_per_device"].values()] == [0.0]
    scaler.step(optimizer)
    assert state["stage"].name == "STEPPED"


def test_compiled_source() -> None:
    net = nn.Linear(1, 1)
    assert compiled_source(net) is None
    assert compiled_source(torch.compile(net, backend="eager")) is net


@pytest.mark.filterwarnings("ignore:FSDP", "ignore::FutureWarning")
def test_is_fsdp1(tmp_path: Path) -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel

    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        wrapped = FullyShardedDataParallel(nn.Linear(1, 1), device_id=torch.device("cpu"))
        assert is_fsdp1(wrapped)
        assert not is_fsdp1(wrapped.module)
    finally:
        dist.destroy_process_group()


def test_is_fsdp2(tmp_path: Path) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        sharded = fully_shard(nn.Linear(1, 1), mesh=init_device_mesh("cpu", (1,)))
    finally:
        dist.destroy_process_group()
    assert is_fsdp2(sharded)
    assert not is_fsdp2(nn.Linear(1, 1))


def test_checkpointed_source() -> None:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    inner = nn.Linear(1, 1)
    assert checkpointed_source(checkpoint_wrapper(inner)) is inner
    assert checkpointed_source(inner) is None


def test_is_persistent() -> None:
    model = nn.Module()
    for name, kept in (("ships", True), ("stays", False)):
        model.register_buffer(name, torch.ones(1), persistent=kept)
        assert is_persistent(model, name) is kept
        assert (name in model.state_dict()) is kept


def test_classes_without_a_public_name() -> None:
    assert is_norm(nn.InstanceNorm2d(2))
    assert is_norm(nn.SyncBatchNorm(2))
    assert not is_norm(nn.LayerNorm(2))
    assert is_batchnorm(nn.LazyBatchNorm1d())
    assert not is_batchnorm(nn.InstanceNorm2d(2))
    assert is_dropout(nn.FeatureAlphaDropout())
    assert not is_dropout(nn.Identity())


def test_plain_attributes() -> None:
    model = nn.Linear(1, 1)
    model.note = "kept"
    assert plain_attributes(model) == {"in_features": 1, "out_features": 1, "note": "kept"}
