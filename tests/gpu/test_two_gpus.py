"""Checks for a machine with two GPUs (``pytest -m gpu -s``); each prints what it measured."""

from __future__ import annotations

import pytest
from gpu_machine import Machine

WORLD = """
import os
import torch.distributed as dist
def total(world):
    value = torch.full((3,), float(world.rank + 1), device=world.device)
    dist.all_reduce(value)
    return value.tolist()
"""


@pytest.mark.gpu(2, pretended=True)
def test_12_ranks_have_a_gpu_each(machine: Machine) -> None:
    """Three tests in the same ranks, with the sum, the devices and the UUIDs."""
    machine.project.write(
        WORLD
        + """
@pytest.mark.world(2, gpus=2)
@pytest.mark.parametrize("number", range(3))
def test_sum(world, number):
    assert total(world) == [3.0] * 3
    assert torch.cuda.current_device() == world.rank == world.device.index
    assert len(set(os.environ["CUDA_VISIBLE_DEVICES"].split(","))) == 2
"""
    )
    machine.run("--junitxml=exportready/junit.xml", "--durations=0")
    assert set(machine.project.outcomes().values()) == {"passed"}


@pytest.mark.gpu(2)
@pytest.mark.parametrize("engine", ["0", "1"])
@pytest.mark.parametrize("torchrun", [False, True])
def test_13_and_14_ranks_that_diverge(machine: Machine, engine: str, torchrun: bool) -> None:
    """The rank at fault is named within the limit, and the next test passes; with both engines of NCCL."""
    machine.project.write(
        WORLD
        + """
@pytest.mark.world(2, gpus=2, timeout=20)
@pytest.mark.parametrize("how", ["skips", "raises", "sizes"])
def test_diverges(world, how):
    if how == "raises" and world.rank == 1: raise ValueError("of rank 1")
    if how == "skips" and world.rank == 1: return
    dist.all_reduce(torch.ones(2 + (how == "sizes") * world.rank, device=world.device))
    torch.cuda.synchronize()
@pytest.mark.world(2, gpus=2)
def test_after_it(world): assert total(world) == [3.0] * 3
"""
    )
    command = ["--junitxml=exportready/junit.xml"]
    if torchrun:
        program = "import sys; from torch.distributed.run import main; main(sys.argv[1:])"
        start = ["--standalone", "--nproc-per-node=2", "-m", "pytest", *command]
        machine.python(f"import sys; sys.argv[1:] = {start!r}\n{program}", TORCH_DIST_USE_NCCL2=engine)
    else:
        machine.run(*command, TORCH_DIST_USE_NCCL2=engine)
    outcomes = machine.project.outcomes()
    assert outcomes.pop("test_after_it") == "passed"
    assert set(outcomes.values()) == {"failed"}


@pytest.mark.gpu(2, pretended=True)
def test_15_scenarios_on_two_gpus(machine: Machine) -> None:
    cases = '@export_ready(scenarios=["ddp", "ddp_amp", "fsdp2"])\ndef test_net(): return ready()\n'
    outcomes = machine.judge(cases, "--export-ready-device=cuda")
    assert outcomes == {f"test_net[{name}-cuda]": "passed" for name in ("ddp", "ddp_amp", "fsdp2")}


@pytest.mark.gpu(2)
def test_16_sends_in_a_batch(machine: Machine) -> None:
    machine.project.write(
        WORLD
        + """
@pytest.mark.world(2, gpus=2, timeout=20)
@pytest.mark.parametrize("raises", [False, True])
def test_ring(world, raises):
    given, got = torch.ones(2, device=world.device) * world.rank, torch.empty(2, device=world.device)
    other = 1 - world.rank
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, given, other), dist.P2POp(dist.irecv, got, other)]):
        work.wait()
    assert got.tolist() == [float(other)] * 2
    if raises and world.rank == 1: raise ValueError("of rank 1")
"""
    )
    machine.run("--junitxml=exportready/junit.xml")
    outcomes = machine.project.outcomes()
    assert outcomes == {"test_ring[False]": "passed", "test_ring[True]": "failed"}
    assert "did not wait for its send" not in (machine.project.path / "exportready" / "junit.xml").read_text()


@pytest.mark.gpu(2)
def test_17_leases_name_the_gpus_of_torch(machine: Machine) -> None:
    """By index, by UUID and in both orders of devices."""
    program = (
        "from exportready_fixtures.gpus import visible; keys = [one.key for one in visible()]\n"
        "import torch; of = torch.cuda.get_device_properties\n"
        "print(keys, [f'GPU-{of(index).uuid}' for index in range(len(keys))], sep=';')"
    )
    for variables in ({}, {"CUDA_VISIBLE_DEVICES": "1"}, {"CUDA_VISIBLE_DEVICES": "1,0"}):
        leased, seen = machine.python(program, CUDA_DEVICE_ORDER="PCI_BUS_ID", **variables).split(";")
        print(variables, leased)
        assert leased == seen


@pytest.mark.gpu(2, pretended=True)
def test_18_a_model_over_two_gpus(machine: Machine) -> None:
    """A note, and every stage passes; an error where the eager module does not run."""
    cases = """
class Spread(nn.Module):
    def __init__(self, moves):
        super().__init__()
        self.first, self.second, self.moves = nn.Linear(3, 4).to("cuda:0"), nn.Linear(4, 2).to("cuda:1"), moves
    def forward(self, x):
        x = self.first(x)
        return self.second(x.to("cuda:1") if self.moves else x)
@export_ready(scenarios="as_is")
def test_spread(): return Spread(True).eval(), (torch.randn(4, 3, device="cuda:0"),)
@export_ready(scenarios="as_is")
def test_stays(): return Spread(False).eval(), (torch.randn(4, 3, device="cuda:0"),)
"""
    assert machine.judge(cases) == {"test_spread[as_is]": "passed", "test_stays[as_is]": "failed at inspect"}
    found = machine.project.results()
    for name, severity in (("test_spread[as_is]", "note"), ("test_stays[as_is]", "error")):
        readiness = found[name].readiness
        assert readiness is not None
        assert [f.severity for f in readiness.findings if f.code == "ER201"] == [severity]
