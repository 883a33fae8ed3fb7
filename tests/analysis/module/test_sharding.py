"""fully_shard on one rank: what is sharded is named, and a whole copy is the model as it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

from pytest_exportready.analysis.execution.eager_reference import EagerReference
from pytest_exportready.analysis.module.sharding import sharded_parameters, sharding_modules, whole_copy
from pytest_exportready.checks._check import Subject
from pytest_exportready.checks.parameters_not_sharded import inspect
from pytest_exportready.judge.prepare import CannotCopy, prepare_for_export

CALLS: list[str] = []


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(6, 4)
        self.mid = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        self.head = nn.Linear(4, 6, bias=False)
        self.head.weight = self.emb.weight
        self.settings = {"widths": [4, 6]}

    def forward(self, ids: torch.Tensor) -> Any:
        return self.head(self.mid(self.emb(ids)))


@pytest.fixture
def one_rank(tmp_path: Path) -> Iterator[None]:
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def sharded(model: nn.Module) -> nn.Module:
    mesh = init_device_mesh("cpu", (1,))
    fully_shard(model.mid, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


@pytest.mark.usefixtures("one_rank")
def test_whole_copy_is_the_model_as_it_was() -> None:
    model, ids = Model().eval(), torch.arange(6)
    expected, names = model(ids).detach(), list(model.state_dict())
    model.head.register_forward_hook(lambda *_: CALLS.append("head"))
    sharded(model)
    copy = whole_copy(model)
    assert type(copy) is Model
    assert type(copy.mid) is nn.Sequential
    assert list(copy.state_dict()) == names
    assert copy.head.weight is copy.emb.weight
    assert not copy.training
    assert copy.settings == model.settings
    assert copy.settings is not model.settings
    CALLS.clear()
    assert torch.equal(copy(ids), expected)
    assert CALLS == ["head"]
    assert torch.equal(torch.export.export(copy, (ids,)).module()(ids), expected)
    assert sharding_modules(model).keys() == {"", "mid"}


@pytest.mark.usefixtures("one_rank")
def test_the_remedy_gathers() -> None:
    model, ids = Model().eval(), torch.arange(6)
    prepared = prepare_for_export(sharded(model), example_inputs=(ids,))
    assert type(prepared.module) is Model
    assert prepared.actions[0] == "Gathered the sharded parameters in a copy."
    with pytest.raises(CannotCopy, match="inplace=False"):
        prepare_for_export(model, inplace=True)


@pytest.mark.usefixtures("one_rank")
def test_sharded_and_unsharded_are_named() -> None:
    model = sharded(Model())
    assert set(sharded_parameters(model).values()) == {"Shard(0)"}
    (finding,) = inspect(Subject(model))
    assert "DTensor, Shard(0)" in finding.message
    model.unshard()
    model.mid.unshard()
    (finding,) = inspect(Subject(model))
    assert finding.severity == "error"
    assert "`fully_shard` is applied to" in finding.message
    assert finding.where == ""


@pytest.mark.usefixtures("one_rank")
def test_flat_parameters_are_named_and_refused() -> None:
    with pytest.warns(UserWarning, match="NO_SHARD"):
        model = FullyShardedDataParallel(nn.Linear(2, 2), device_id=torch.device("cpu"))
    (finding,) = inspect(Subject(model))
    assert "FullyShardedDataParallel shards and flattens" in finding.message
    with pytest.raises(CannotCopy, match="get_model_state_dict"):
        prepare_for_export(model)


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize("gathered", [False, True])
def test_a_sharded_model_survives_being_looked_at(gathered: bool) -> None:
    model, ids = Model().eval(), torch.arange(6)
    expected = model(ids).detach()
    sharded(model)
    if gathered:
        model(ids)
    names = list(sharded_parameters(model))
    for _ in range(2):
        assert torch.equal(EagerReference(model).output(((ids,), {})), expected)
        assert list(sharded_parameters(model)) == names
    assert torch.equal(model(ids), expected)


def test_an_ordinary_model_is_clean() -> None:
    assert list(inspect(Subject(Model()))) == []
