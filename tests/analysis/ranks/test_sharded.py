"""Sharded modules: each rank has another part, which is not compared; what the ranks share is compared."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor

from pytest_exportready import RankMismatchError, assert_ranks_agree
from pytest_exportready.analysis.execution.compare import Tolerance
from pytest_exportready.analysis.ranks.check_ranks import disagreements
from pytest_exportready.case.export_case import ExportCase
from pytest_exportready.case.finding import Finding


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 3)).eval()


def judged(model: nn.Module) -> tuple[list[Any], dict[str, Any]]:
    seen = list(disagreements(ExportCase(model, (torch.ones(2, 3),)), Tolerance(), 60.0))
    facts = {name: value for item in seen if isinstance(item, dict) for name, value in item.items()}
    return [item for item in seen if isinstance(item, Finding)], facts


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.world(2)
@pytest.mark.parametrize("kind", ["fsdp1", "fsdp1 with original parameters", "fsdp2"])
def test_fully_sharded(world: Any, kind: str) -> None:
    """Uneven shards too."""
    if kind == "fsdp2":
        mesh = init_device_mesh("cpu", (world.size,))
        model: nn.Module = fully_shard(net(), mesh=mesh)  # type: ignore[assignment]
    else:
        original = "original" in kind
        model = FullyShardedDataParallel(net(), device_id=torch.device("cpu"), use_orig_params=original)
    found, facts = judged(model)
    assert found == []
    assert facts["outputs"] == "not compared: the parameters are sharded"


@pytest.mark.world(2)
def test_a_dtensor_is_its_global_shape_and_placement(world: Any) -> None:
    mesh = init_device_mesh("cpu", (world.size,))
    whole = torch.arange(6.0).reshape(3, 2)
    assert_ranks_agree({"w": distribute_tensor(whole, mesh, [Shard(0)])})
    form = {"shape": torch.Size((4, 4)), "stride": (4, 1)}
    local = torch.zeros(4, 2) if world.rank else torch.zeros(2, 4)
    other = DTensor.from_local(local, mesh, [Shard(world.rank)], run_check=False, **form)
    with pytest.raises(RankMismatchError, match="w differs in placements"):
        assert_ranks_agree({"w": other})


@pytest.mark.world(2)
def test_replicas_of_a_dtensor_are_compared(world: Any) -> None:
    mesh = init_device_mesh("cpu", (world.size,))
    model = distribute_module(net(), mesh)
    assert_ranks_agree(model)
    replicated: Any = model.get_parameter("0.weight")
    assert replicated.placements == (Replicate(),)
    with torch.no_grad():
        replicated.to_local()[0, 0] += world.rank
    with pytest.raises(RankMismatchError, match=r"0\.weight differs in values between rank 0 and rank 1"):
        assert_ranks_agree(model)
