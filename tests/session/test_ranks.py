"""Cases that train in ranks: one verdict from all ranks, and findings that name the rank."""

from __future__ import annotations

import pytest
from user_project import Project

CASES = """
import os, signal
import torch.distributed as dist

def rank():
    return dist.get_rank() if dist.is_initialized() else 0

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.head = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.bn(self.conv(x)).relu().mean((2, 3)))

def images():
    return (torch.randn(4, 3, 8, 8),)

@export_ready(dynamic_batch=True, scenarios=["plain", "ddp", "ddp_amp", "fsdp2"])
def test_good(tmp_path):
    return Net().eval(), images()

@export_ready
@pytest.mark.world(3)
def test_own_world():
    assert dist.get_world_size() == 3
    return Net().eval(), images()

@export_ready(scenarios=["ddp"])
def test_all_ranks_in_train_mode():
    return Net(), images()

@export_ready(scenarios=["ddp"])
def test_rank_1_in_train_mode():
    return Net().train(rank() == 1), images()

@export_ready(scenarios=["ddp"])
def test_rank_1_builds_nothing():
    if rank() == 1:
        raise RuntimeError("bad shard")
    return Net().eval(), images()

class Diverging(Net):
    def forward(self, x):
        if self.training and rank() == 1:
            raise ValueError("only here")
        return super().forward(x)

@export_ready(scenarios=["ddp"])
def test_rank_1_cannot_train():
    return Diverging().eval(), images()

@export_ready(scenarios=["ddp"])
def test_rank_1_dies():
    if rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return Net().eval(), images()

@export_ready(scenarios=["ddp"])
def test_skipped():
    pytest.skip("no weights")

@export_ready(scenarios=["ddp"], xfail_stage="inspect", reason="known")
def test_expected():
    return Net(), images()

@export_ready
def test_alone_afterwards():
    return ready()
"""


def test_one_verdict_from_all_ranks(project: Project) -> None:
    project.write(CASES)
    run = project.run(subprocess=True)
    expected = {f"test_good[{scenario}]": "passed" for scenario in ("plain", "ddp", "ddp_amp", "fsdp2")}
    expected |= {
        "test_own_world": "passed",
        "test_all_ranks_in_train_mode[ddp]": "failed at inspect",
        "test_rank_1_in_train_mode[ddp]": "failed at inspect",
        "test_rank_1_builds_nothing[ddp]": "failed at case",
        "test_rank_1_cannot_train[ddp]": "failed at train",
        "test_rank_1_dies[ddp]": "failed at train",
        "test_skipped[ddp]": "skipped",
        "test_expected[ddp]": "xfailed at inspect",
        "test_alone_afterwards": "passed",
    }
    assert project.outcomes() == expected
    assert run.ret == pytest.ExitCode.TESTS_FAILED
    results = project.results()
    found = {
        name: {(f.name, f.rank) for f in result.readiness.errors}
        for name, result in results.items()
        if result.readiness is not None and result.outcome == "failed"
    }
    modes = ("batchnorm_frozen", "no_training_mode")
    assert found == {
        "test_all_ranks_in_train_mode[ddp]": {(name, None) for name in modes},
        "test_rank_1_in_train_mode[ddp]": {*((name, 1) for name in modes), ("ranks_agree", None)},
        "test_rank_1_builds_nothing[ddp]": {("case_builds", 1)},
        "test_rank_1_cannot_train[ddp]": {("case_trains", 1)},
        "test_rank_1_dies[ddp]": {("ranks_finish", 1)},
    }
    (died,) = results["test_rank_1_dies[ddp]"].readiness.findings
    assert died.message.startswith("Rank 1 of 2 was killed by SIGKILL")
    assert "only here" in results["test_rank_1_cannot_train[ddp]"].message
    trained = results["test_good[ddp_amp]"].readiness
    assert trained is not None
    facts = trained.stages[0].facts
    assert facts["ranks"] == 2
    assert facts["loss_scale"] > 0
    run.stdout.fnmatch_lines(["[[]*/13[]] test_cases.py::test_good[[]ddp[]]: -> ready (* s)"])


def test_without_the_plugin_of_ranks_it_is_an_infrastructure_error(project: Project) -> None:
    project.write(
        """
        @export_ready(scenarios=["ddp"])
        def test_good():
            return ready()
        """.replace("\n        ", "\n")
    )
    project.run("-p", "no:exportready-world", subprocess=True)
    assert project.outcomes() == {"test_good[ddp]": "infra at train"}
    assert "needs 2 ranks" in project.results()["test_good[ddp]"].message
