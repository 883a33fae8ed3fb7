"""A program follows its checkpoints: weights swapped where that is right, exported anew where it is not."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.fsdp import fully_shard

from pytest_exportready import CheckpointMisfit, ProgramDiffers, ReexportOnLoad
from pytest_exportready.transforms.reexport import Loaded

X = torch.linspace(-1.0, 1.0, 8).reshape(2, 4)


def net(seed: int, width: int = 8) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, width), nn.BatchNorm1d(width), nn.Tanh(), nn.Linear(width, 2)).eval()


class Cached(nn.Module):
    """Holds a table made of its weights, outside of the state dict."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.weight = nn.Parameter(torch.randn(4, 4))
        self._register_load_state_dict_pre_hook(self._forget)
        self._forget()

    def _forget(self, *args: Any) -> None:
        self.table: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.table is None:
            return x @ self.weight.exp()
        return x @ self.table

    def warm(self) -> None:
        self.table = self.weight.detach().exp()


def saved(model: nn.Module, folder: Path, key: str = "") -> Path:
    state = {key: model.state_dict()} if key else model.state_dict()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a single process
        dcp.save(state, checkpoint_id=folder, no_dist=True)
    return folder


def load(holder: ReexportOnLoad, *args: Any) -> Loaded:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return holder.load(*args)


def test_new_weights_go_into_the_same_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    holder, trained = ReexportOnLoad(net(0), (X,)), net(1)
    program, first = holder.program, holder._graph
    monkeypatch.setattr(ReexportOnLoad, "_export", None)  # no export is needed
    loaded = load(holder, saved(trained, tmp_path))
    assert (loaded.action, loaded.graph) == ("weights", first)
    assert holder.program is program
    assert torch.equal(holder.program.module()(X), trained(X))
    assert load(holder, tmp_path).action == "unchanged"


def test_a_state_dict_below_a_key(tmp_path: Path) -> None:
    trained, holder = net(1), ReexportOnLoad(net(0), (X,))
    assert load(holder, saved(trained, tmp_path, "model"), "model").action == "weights"
    assert torch.equal(holder.program.module()(X), trained(X))


def test_a_constant_made_of_old_weights_asks_for_an_export(tmp_path: Path) -> None:
    model = Cached(0)
    model.warm()
    holder, trained = ReexportOnLoad(model, (X,)), Cached(1)
    loaded = load(holder, saved(trained, tmp_path))
    assert loaded.action == "exported"
    assert "differs" in loaded.why
    assert torch.equal(holder.program.module()(X), trained(X))


def test_an_export_that_cannot_follow_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Cached(0)
    model.warm()
    holder = ReexportOnLoad(model, (X,))
    monkeypatch.setattr(ReexportOnLoad, "_export", lambda self: self.program)
    with pytest.raises(ProgramDiffers, match="differs from the module as well"):
        load(holder, saved(Cached(1), tmp_path))


@pytest.mark.parametrize(
    ("other", "key", "problem"),
    [
        (lambda: net(1, width=6), "", r"0.weight has shape \[6, 4\], expected \[8, 4\]"),
        (lambda: nn.Sequential(nn.Linear(4, 8)), "", "missing: 1.bias"),
        (lambda: nn.Sequential(*net(1), nn.Linear(2, 2)), "", r"unexpected: 4\.bias"),
        (lambda: net(1), "ema", "under 'ema'"),
    ],
    ids=["another width", "entries missing", "entries too many", "no such key"],
)
def test_a_misfit_is_named_and_nothing_loaded(other: Any, key: str, problem: str, tmp_path: Path) -> None:
    holder = ReexportOnLoad(net(0), (X,))
    with pytest.raises(CheckpointMisfit, match=problem):
        load(holder, saved(other(), tmp_path), key)
    assert torch.equal(holder.model(X), net(0)(X))


def test_a_damaged_checkpoint_is_an_error_and_nothing_loaded(tmp_path: Path) -> None:
    holder = ReexportOnLoad(net(0), (X,))
    for file in saved(net(1), tmp_path).glob("*.distcp"):
        file.unlink()
    with pytest.raises(RuntimeError, match="cannot be read"):
        load(holder, tmp_path)
    with pytest.raises(OSError, match="nowhere"):
        load(holder, tmp_path / "nowhere")
    assert torch.equal(holder.model(X), net(0)(X))


@pytest.mark.world(2)
def test_a_checkpoint_of_two_ranks(world: Any) -> None:
    trained = net(1)
    expected = trained(X)
    fully_shard(trained)
    dcp.save(trained.state_dict(), checkpoint_id=world.tmp_path / "sharded")
    if world.rank == 0:
        holder = ReexportOnLoad(net(0), (X,))
        assert load(holder, world.tmp_path / "sharded").action == "weights"
        assert torch.equal(holder.program.module()(X), expected)
