"""assert_ranks_agree: in real ranks, over the stores that real launchers make."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from pytest_exportready import RankMismatchError, assert_ranks_agree


def raised(*args: Any, **options: Any) -> str:
    """The message, the same on every rank."""
    with pytest.raises(RankMismatchError) as error:
        assert_ranks_agree(*args, **options)
    everywhere: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everywhere, str(error.value))
    assert everywhere == [everywhere[0]] * len(everywhere)
    return str(error.value)


def linear(*add: float) -> nn.Linear:
    torch.manual_seed(0)
    model = nn.Linear(2, 2)
    with torch.no_grad():
        model.weight += add[dist.get_rank()]
    return model


@pytest.mark.world(3)
def test_what_differs_is_reported_worst_rank_first(world: Any) -> None:
    """Tensor, field, both sides, a fix; equal ranks together."""
    assert_ranks_agree(linear(1.0, 1.0, 1.0))
    line = raised(linear(0.0, 0.25, 1.0)).splitlines()
    assert line[0] == "The 3 ranks do not agree:"
    assert line[1].startswith("weight differs in values from rank 0: rank 2 is up to 1 off ")
    assert "; rank 1 is up to 0.25 off" in line[1]
    assert line[2].startswith("Fix: ")
    assert "weight differs in values from ranks 0, 2: rank 1 is up to 0.5" in raised(linear(0.0, 0.5, 0.0))
    assert_ranks_agree(linear(0.0, 0.25, 1.0), "structure")


@pytest.mark.world(2)
def test_many_mismatches_are_counted(world: Any) -> None:
    lines = raised({f"t{n}": torch.full((2,), 1.0 + world.rank * n) for n in range(14)}).splitlines()
    assert [line.split()[0] for line in lines[1:11]] == [f"t{n}" for n in range(13, 3, -1)]
    assert lines[11] == "and 3 more"


@pytest.mark.world(2)
def test_tensors_too_large_to_send(world: Any) -> None:
    """Summary numbers of each rank, and never contents."""
    message = raised(torch.arange(2.0**21) + world.rank)
    assert "rank 1 has min 1, max 2.1e+06" in message
    assert "rank 0 has min 0," in message
    assert "[" not in message
    assert "tensor(" not in message


@pytest.mark.world(2)
def test_the_same_number_in_other_bits_is_not_a_mismatch(world: Any) -> None:
    assert_ranks_agree(torch.tensor([-0.0 if world.rank else 0.0, float("nan"), 1.0]))
    assert "differs in 1 of 2 values" in raised(torch.tensor([2**60 + world.rank, 0]))


@pytest.mark.world(2)
def test_an_absent_rank_is_named_in_time(world: Any) -> None:
    """Also one that raised before it came."""
    if world.rank == 0:
        began = time.monotonic()
        with pytest.raises(
            RankMismatchError, match=r"rank 1.* within 0.5 s.*Fix: Call `assert_ranks_agree` on every rank"
        ):
            assert_ranks_agree(linear(0, 0), timeout=0.5)
        assert time.monotonic() - began < 20
    dist.barrier()
    assert_ranks_agree(linear(0, 0))


@pytest.mark.world(3)
def test_sub_groups(world: Any) -> None:
    """Ranks are numbered as in the default group; a rank that is not in the group gets an error."""
    group = dist.new_group([1, 2])
    if world.rank:
        with pytest.raises(RankMismatchError, match=r"from rank 1: rank 2 is up to 1 off"):
            assert_ranks_agree(linear(5.0, 0.0, 1.0), group=group)
        assert_ranks_agree(linear(5.0, 1.0, 1.0), group=group)
    else:
        with pytest.raises(ValueError, match="not in the group"):
            assert_ranks_agree(linear(5.0, 0.0, 1.0), group=group)
    dist.barrier()


def over_every_store(folder: str) -> list[str]:
    """Create the default group again over each kind of store; run in ranks of its own."""
    rank, size = dist.get_rank(), dist.get_world_size()
    port = [dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)] if rank == 0 else []
    shared: list[Any] = [port[0].port if port else None]
    dist.broadcast_object_list(shared, 0)
    tcp = port[0] if port else dist.TCPStore("127.0.0.1", shared[0], is_master=False)
    dist.destroy_process_group()
    done = []
    for kind, options in (
        ("tcp", {"store": dist.PrefixStore("a", tcp)}),
        ("file", {"init_method": f"file://{folder}/rendezvous"}),
        ("tcp again", {"store": dist.PrefixStore("b", tcp)}),
    ):
        dist.init_process_group("gloo", rank=rank, world_size=size, **options)
        assert_ranks_agree({"w": torch.ones(3)})
        try:
            assert_ranks_agree({"w": torch.ones(3) + rank})
        except RankMismatchError:
            done.append(kind)
        dist.barrier()
        dist.destroy_process_group()
    return done


def test_every_store(world: Any, tmp_path: Any) -> None:
    assert world.run(over_every_store, str(tmp_path), size=2, isolate=True) == [["tcp", "file", "tcp again"]] * 2


def test_without_a_group_or_with_an_unknown_aspect() -> None:
    with pytest.raises(ValueError, match="init_process_group"):
        assert_ranks_agree(nn.Linear(1, 1))
    with pytest.raises(ValueError, match="accepted are structure, parameters, buffers, modes, gradients"):
        assert_ranks_agree(nn.Linear(1, 1), "weights")
