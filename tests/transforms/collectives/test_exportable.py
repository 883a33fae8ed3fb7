"""Collectives in forward: right numbers in eager and in the program, in fresh processes too, on the right group."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import _functional_collectives as functional

from pytest_exportready import (
    GroupNotNamed,
    bind_groups,
    export_ready_check,
    exportable_all_gather,
    exportable_all_reduce,
    exportable_all_to_all,
    exportable_broadcast,
    exportable_reduce_scatter,
    name_group,
)
from pytest_exportready.transforms.collectives.groups import groups_of


class Every(nn.Module):
    """All five, with a weight besides."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([2.0, -1.0]))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x * self.weight
        return {
            "reduced": exportable_all_reduce(y, "every"),
            "largest": exportable_all_reduce(y, "every", op="max"),
            "rows": exportable_all_gather(y, "every"),
            "columns": exportable_all_gather(y, "every", dim=1),
            "part": exportable_reduce_scatter(y, "every"),
            "exchanged": exportable_all_to_all(y, "every"),
            "first": exportable_broadcast(y, "every", source=1),
        }


def inputs(rank: int) -> torch.Tensor:
    return torch.arange(16.0).reshape(8, 2) + 100 * rank


def expected(rank: int, size: int) -> dict[str, torch.Tensor]:
    """By hand, from what all ranks give."""
    given = [inputs(r) * torch.tensor([2.0, -1.0]) for r in range(size)]
    total = sum(given[1:], given[0])
    step = 8 // size
    block = slice(rank * step, (rank + 1) * step)
    return {
        "reduced": total,
        "largest": torch.stack(given).amax(0),
        "rows": torch.cat(given),
        "columns": torch.cat(given, 1),
        "part": total[block],
        "exchanged": torch.cat([g[block] for g in given]),
        "first": given[1],
    }


def agrees(answer: dict[str, torch.Tensor], rank: int, size: int) -> None:
    for name, value in expected(rank, size).items():
        assert torch.equal(answer[name], value), name


@pytest.mark.parametrize("size", [pytest.param(n, marks=pytest.mark.world(n)) for n in (2, 4)])
def test_eager_and_program(size: int, world: Any) -> None:
    name_group("every")
    model, x = Every().eval(), inputs(world.rank)
    agrees(model(x), world.rank, size)
    program = torch.export.export(model, (x,))
    path = world.tmp_path / f"{world.rank}.pt2"
    torch.export.save(program, path)
    agrees(torch.export.load(path).module()(x), world.rank, size)
    assert groups_of(program) == {f"exportready/every/{size}": 7}


FRESH = """
import os, sys, warnings
warnings.simplefilter("ignore")
import torch, torch.distributed as dist
from pytest_exportready import name_group
rank, size, store, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
dist.init_process_group("gloo", rank=rank, world_size=size, store=dist.FileStore(store, size))
others = [dist.new_group([r]) for r in range(size)]  # so that torch's numbers stand for other groups than at the export
name_group("every", dist.new_group(list(range(size))))
answer = torch.export.load(f"{folder}/{rank}.pt2").module()(torch.arange(16.0).reshape(8, 2) + 100 * rank)
torch.save(answer, f"{folder}/{rank}.out")
dist.barrier()
"""


@pytest.mark.world(2)
def test_loaded_in_fresh_processes_with_other_groups(world: Any) -> None:
    name_group("every")
    torch.export.save(torch.export.export(Every().eval(), (inputs(world.rank),)), world.tmp_path / f"{world.rank}.pt2")
    dist.barrier()
    if world.rank == 0:
        folder = str(world.tmp_path)
        command = [sys.executable, "-c", FRESH]
        started = [subprocess.Popen([*command, str(r), "2", f"{folder}/store", folder]) for r in range(2)]
        assert [process.wait() for process in started] == [0, 0]
        for rank in range(2):
            agrees(torch.load(Path(folder) / f"{rank}.out"), rank, 2)


@pytest.mark.world(2)
def test_without_its_group_or_with_one_of_another_size_a_program_refuses(world: Any) -> None:
    name_group("every")
    path = world.tmp_path / f"{world.rank}.pt2"
    torch.export.save(torch.export.export(Every().eval(), (inputs(world.rank),)), path)
    name_group("every", [dist.new_group([rank]) for rank in range(2)][world.rank])
    with pytest.raises(RuntimeError, match="exportready/every/2"):
        torch.export.load(path).module()(inputs(world.rank))
    name_group("every")
    agrees(torch.export.load(path).module()(inputs(world.rank)), world.rank, 2)


class ByNumber(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.all_reduce(x, "sum", dist.group.WORLD) * 2


@pytest.mark.world(2)
def test_a_program_with_torchs_own_number_is_told_and_mended(world: Any) -> None:
    x = inputs(world.rank)
    readiness = export_ready_check(ByNumber().eval(), (x,), stages=["export"])
    (told,) = [finding for finding in readiness.findings if finding.code == "ER690"]
    assert told.severity == "warning"
    assert Path(told.file).name == "test_exportable.py"
    program = torch.export.export(ByNumber(), (x,))
    (number,) = groups_of(program)
    with pytest.raises(KeyError, match="does not use group 77"):
        bind_groups(program, {"77": "every"})
    with pytest.raises(GroupNotNamed, match="name_group"):
        bind_groups(program, {number: "unheard of"})
    name_group("every")
    assert groups_of(bind_groups(program, {number: "every"})) == {"exportready/every/2": 1}
    assert torch.equal(program.module()(x), (inputs(0) + inputs(1)) * 2)


class InPlace(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        dist.broadcast(y, 0)
        return y


@pytest.mark.world(2)
@pytest.mark.parametrize("strict", [False, True])
def test_a_collective_in_place_is_diagnosed(strict: bool, world: Any) -> None:
    readiness = export_ready_check(InPlace().eval(), (inputs(world.rank),), strict=strict, stages=["export"])
    (finding,) = readiness.errors
    assert finding.code == "ER429"
    assert "exportable_broadcast" in finding.fix
    assert finding.line == InPlace.forward.__code__.co_firstlineno + 2


def test_a_name_without_a_group_says_what_to_do() -> None:
    with pytest.raises(GroupNotNamed, match=r"no process group is named 'nobody'.*name_group\('nobody', group\)"):
        exportable_all_reduce(torch.ones(2), "nobody")
    with pytest.raises(ValueError, match="contains a slash"):
        name_group("a/b")
    if not dist.is_initialized():
        with pytest.raises(ValueError, match="init_process_group"):
            name_group("every")


@pytest.mark.world(2)
def test_rows_that_cannot_be_divided_are_named(world: Any) -> None:
    name_group("every")
    for collective in (exportable_reduce_scatter, exportable_all_to_all):
        with pytest.raises(ValueError, match="dimension 0 of size 3 is not divisible by 2 ranks"):
            collective(torch.ones(3, 2), "every")
