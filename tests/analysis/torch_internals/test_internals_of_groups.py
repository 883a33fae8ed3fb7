"""What is private to torch about groups: there in 2.13 to 2.15; what a newer torch has lost fails here."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist

from pytest_exportready.analysis.torch_internals.groups import functional_collectives, register_group, unregister_group


@pytest.mark.world(2)
def test_groups_and_functional_collectives(world: Any) -> None:
    unregister_group("never there")
    register_group("exportready/a_test/2", dist.group.WORLD)
    ops = functional_collectives()
    x = torch.ones(2) + world.rank
    for name in ("all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single", "broadcast"):
        assert hasattr(ops, name)
    assert ops.wait_tensor(ops.all_reduce(x, "sum", "exportready/a_test/2")).tolist() == [3.0, 3.0]
    unregister_group("exportready/a_test/2")
    with pytest.raises(RuntimeError, match="exportready/a_test/2"):
        ops.all_reduce(x, "sum", "exportready/a_test/2")
