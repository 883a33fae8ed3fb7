"""Cases on devices: the option, the marker and the fixture, on machines without a GPU and with pretended ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pretended_cuda import PretendedCuda
from user_project import Project

CASES = """
@export_ready(dynamic_batch=True, strict="both", lower=["decompose"])
def test_net():
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(36, 2)).eval()
    return net, (torch.randn(3, 3, 5, 5),)
@export_ready(scenarios=["ddp", "fsdp2"])
def test_ranks(): return ready()
@export_ready(devices="cuda")
def test_built_there(device):
    assert device.type == "cuda"
    return nn.Linear(3, 2, device=device).eval(), (torch.randn(4, 3, device=device),)
"""


def run(project: Project, environment: dict[str, str], *args: str) -> str:
    """Run in another process, which has its own CUDA; return what it prints."""
    command = [sys.executable, "-m", "pytest", "--export-ready", "--export-ready-reference-models=never", *args]
    environment = {**environment, "EXPORTREADY_GPU_LOCKS": str(project.path / "locks")}
    return subprocess.run(command, cwd=project.path, env=environment, capture_output=True, text=True).stdout


@pytest.mark.parametrize(("gpus", "more"), [(1, ()), (2, ("-n", "2"))])
def test_every_case_on_both(project: Project, pretended_cuda: PretendedCuda, gpus: int, more: tuple[str, ...]) -> None:
    """Training, ranks and all stages; those on one device together, so that its ranks stay for the next case."""
    project.write(CASES)
    printed = run(project, pretended_cuda.environment(gpus), "--export-ready-device=cpu,cuda", *more)
    results = project.results()
    passed = {name for name, result in results.items() if result.outcome == "passed"}
    names = ["test_net[{}]", "test_ranks[ddp-{}]", "test_ranks[fsdp2-{}]"]
    assert passed == {name.format(device) for name in names for device in ("cpu", "cuda")} | {"test_built_there[cuda]"}
    assert results["test_built_there[cpu]"].message == "the marker's devices are cuda"
    assert {r.readiness.device for n, r in results.items() if r.readiness and "cuda" in n} == {"cuda"}
    across = {name: one.readiness.stages for name, one in results.items() if one.readiness}
    assert [s.facts["ran_there"] for s in across["test_net[cuda]"] if s.name == "portability"] == [True]
    assert "portability" not in [stage.name for stage in across["test_net[cpu]"]]
    assert results["test_ranks[ddp-cuda]"].label == "ranks [ddp, cuda]"
    if not more:
        assert [name.endswith("cuda]") for name in results] == [False] * 4 + [True] * 4
    assert "net [cuda]" in printed


def test_one_gpu_of_several(project: Project, pretended_cuda: PretendedCuda) -> None:
    """It is leased by its index, and a device that is not there is an infrastructure error."""
    project.write("""
@export_ready
def test_net(device):
    import os
    assert os.environ["CUDA_VISIBLE_DEVICES"].endswith("01") and str(device) == "cuda:0"
    return ready()
""")
    printed = run(project, pretended_cuda.environment(2), "--export-ready-device=cuda:1,cuda:2")
    assert project.outcomes() == {"test_net[cuda:1]": "passed", "test_net[cuda:2]": "infra at train"}
    assert "GPU 2 is needed, 2 are available. Fix: Run `exportready doctor" in printed


def test_auto(project: Project, pretended_cuda: PretendedCuda) -> None:
    """A GPU on which a kernel runs, otherwise the CPU; the same in every process."""
    project.write("@export_ready\ndef test_net(): return ready()\n")
    run(project, pretended_cuda.environment(1), "--export-ready-device=auto")
    assert project.outcomes() == {"test_net[cuda]": "passed"}
    run(project, pretended_cuda.environment(1) | {"LD_PRELOAD": ""}, "--export-ready-device=auto")  # it has no driver
    assert project.outcomes() == {"test_net[cpu]": "passed"}


def test_without_a_gpu(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """An option that names one is an infrastructure error; a marker alone is skipped; a case may go to the CPU."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))  # without nvidia-smi
    project.write("""
@export_ready
def test_any(): return ready()
@export_ready(devices=["cpu", "cuda"])
def test_both(device): return nn.Linear(3, 2, device=device).eval(), (torch.randn(4, 3),)
""")
    project.run("--export-ready-device=cuda")
    assert project.outcomes() == {"test_any[cuda]": "infra at train", "test_both[cuda]": "infra at train"}
    project.run()
    assert project.outcomes() == {"test_any": "passed", "test_both[cpu]": "passed", "test_both[cuda]": "skipped"}


@pytest.mark.parametrize("given", ["gpu", "cpu,xpu", "cuda:x", "auto,cpu"])
def test_wrong_devices(project: Project, given: str) -> None:
    result = project.run(f"--export-ready-device={given}")
    result.stderr.fnmatch_lines(["ERROR: --export-ready-device=* is not accepted. Fix: Use cpu, cuda or cuda:1, *"])


@pytest.mark.parametrize("given", ["[]", "'gpu'", "['cuda', 3]", "7"])
def test_wrong_devices_of_a_marker(project: Project, given: str) -> None:
    project.write(f"@export_ready(devices={given})\ndef test_net(): return ready()\n")
    project.run()
    (result,) = project.results().values()
    assert result.stage == "case"
    assert result.readiness is not None
    assert "accepted is a list of names such as cpu, cuda or cuda:1" in result.readiness.findings[0].message
