"""What is private to torch about hooks: there in 2.13 to 2.15; what a newer torch has lost fails here."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from pytest_exportready.analysis.torch_internals.hooks import (
    backward_hooks,
    clear_backward_hooks,
    clear_gradient_hooks,
    comm_hooks,
    forward_hook_tables,
    forward_hooks,
    gradient_hooks,
    state_dict_hooks,
)
from pytest_exportready.analysis.torch_internals.modules import scaler_states
from pytest_exportready.analysis.torch_internals.programs import program_guards


def _noop(*_: object) -> None: ...


def test_comm_hooks(tmp_path: Path) -> None:
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        ddp = DistributedDataParallel(nn.Linear(1, 1))
        assert comm_hooks(ddp) == []
        ddp.register_comm_hook(None, allreduce_hook)
        assert comm_hooks(ddp) == [allreduce_hook]
    finally:
        dist.destroy_process_group()


def test_forward_hook_tables_and_state_dict_hooks() -> None:
    model = nn.Linear(1, 1)
    model.register_forward_pre_hook(_noop)
    model.register_forward_hook(_noop)
    handle = nn.modules.module.register_module_forward_hook(_noop)
    try:
        of_all = forward_hook_tables(None)
    finally:
        shown = {kind: list(table.values()) for kind, table in of_all.items()}
        handle.remove()
    assert shown == {"before": [], "after": [_noop]}
    own = forward_hook_tables(model)
    assert {kind: list(table.values()) for kind, table in own.items()} == {"before": [_noop], "after": [_noop]}
    model.register_state_dict_pre_hook(_noop)
    model.register_state_dict_post_hook(_noop)
    assert state_dict_hooks(model) == [_noop, _noop]


def test_hooks_are_listed_and_cleared() -> None:
    model = nn.Linear(1, 1)
    model.register_full_backward_hook(_noop)
    model.register_full_backward_pre_hook(_noop)
    model.register_forward_hook(_noop)
    model.register_forward_pre_hook(_noop)
    model.weight.register_hook(_noop)
    model.weight.register_post_accumulate_grad_hook(_noop)
    assert backward_hooks(model) == [_noop, _noop]
    assert forward_hooks(model) == [_noop, _noop]
    assert gradient_hooks(model.weight) == [_noop, _noop]
    clear_backward_hooks(model)
    clear_gradient_hooks(model.weight)
    assert backward_hooks(model) == gradient_hooks(model.weight) == []


@pytest.mark.parametrize(
    ("function", "unknown"),
    [
        (scaler_states, None),
        (comm_hooks, None),
        (program_guards, []),
        (backward_hooks, []),
        (forward_hooks, []),
        (gradient_hooks, []),
    ],
)
def test_a_missing_api_is_unknown_and_no_crash(function: object, unknown: object) -> None:
    assert function(object()) == unknown
