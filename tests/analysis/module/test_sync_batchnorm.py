from __future__ import annotations

import pytest
import torch
from torch import nn

from pytest_exportready.analysis.module.sync_batchnorm import without_sync
from pytest_exportready.judge.prepare import prepare_for_export


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 5), (3, 4, 5, 5), (2, 4, 3, 3, 3)])
@pytest.mark.parametrize("settings", [{}, {"affine": False}, {"momentum": None}, {"eps": 0.1}])
def test_same_state_same_outputs(shape: tuple[int, ...], settings: dict[str, float]) -> None:
    sync = nn.SyncBatchNorm(4, **settings).eval()
    for buffer in sync.buffers():
        buffer.add_(1)
    local = without_sync(sync)
    x = torch.randn(shape)
    assert torch.equal(local(x), sync(x))
    assert local.state_dict().keys() == sync.state_dict().keys()
    assert all(value is sync.state_dict(keep_vars=True)[n] for n, value in local.state_dict(keep_vars=True).items())
    assert not local.training


def test_remedy_keeps_outputs_names_and_ties() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    net(torch.randn(8, 3))
    net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    net.append(net[1])
    expected = net.eval()(torch.ones(2, 3))
    prepared = prepare_for_export(net, example_inputs=(torch.ones(2, 3),))
    assert "Replaced SyncBatchNorm with BatchNorm: 1." in prepared.actions
    assert prepared.module[1] is prepared.module[2]
    assert prepared.module.state_dict().keys() == net.state_dict().keys()
    assert torch.equal(prepared.module(torch.ones(2, 3)), expected)
    assert isinstance(net[1], nn.SyncBatchNorm)


def test_what_users_hang_on_a_norm_stays() -> None:
    class Own(nn.SyncBatchNorm): ...

    hooked = nn.SyncBatchNorm(4)
    hooked.register_forward_hook(lambda *_: None)
    marked = nn.SyncBatchNorm(4)
    marked.note = "mine"
    net = nn.Sequential(Own(4), hooked, marked)
    assert prepare_for_export(net.eval(), inplace=True).actions[:-1] == []
    assert [type(module) for module in net] == [Own, nn.SyncBatchNorm, nn.SyncBatchNorm]
