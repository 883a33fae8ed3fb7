from __future__ import annotations

from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

from pytest_exportready.analysis.module.wrappers import inner_wrappers, unwrap


def test_unwraps_from_outside_in(tmp_path: Path) -> None:
    net = nn.Linear(2, 2)
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        wrapped = torch.compile(DistributedDataParallel(net), backend="eager")
        inner, wrappers = unwrap(wrapped)
    finally:
        dist.destroy_process_group()
    assert inner is net
    assert wrappers == ["OptimizedModule", "DistributedDataParallel"]


def test_leaves_what_is_no_training_wrapper() -> None:
    averaged = AveragedModel(nn.Linear(2, 2))
    for model in (averaged, nn.Sequential(nn.Linear(2, 2)), nn.Module()):
        assert unwrap(model) == (model, [])


def test_lists_wrappers_inside_with_every_place_of_a_shared_one() -> None:
    shared = nn.DataParallel(nn.Linear(2, 2))
    model = nn.Module()
    model.first, model.second = shared, shared
    model.third = torch.compile(nn.Linear(2, 2), backend="eager")
    assert inner_wrappers(model) == [("first", shared), ("second", shared), ("third", model.third)]
    assert inner_wrappers(shared) == []
