"""Checks for a machine with one GPU (``pytest -m gpu -s``); each prints what it measured."""

from __future__ import annotations

import pytest
from gpu_machine import Machine

ASKS = (
    "import os, torch; torch.cuda.is_available(); pid = os.fork()\n"
    "if not pid: os._exit(torch.cuda._is_in_bad_fork())\n"
    "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
)
NET = """
def net():
    layers = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2)
    return nn.Sequential(*layers).eval()
"""
KINDS = """
class Scatters(nn.Module):
    def forward(self, x):
        index = (x[:, 0].abs() * 10).long() % 4
        sums = torch.zeros(4, x.shape[1], device=x.device, dtype=x.dtype).index_add(0, index, x)
        return sums.scatter_add(0, index[:, None].expand_as(x), x)
class Attends(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]
@export_ready
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
def test_dtypes(dtype): return net().to(dtype), (torch.randn(2, 3, 8, 8, dtype=dtype),)
@export_ready
def test_benchmark(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    return net(), (torch.randn(2, 3, 8, 8),)
@export_ready(scenarios="as_is")
def test_scatters(): return Scatters().eval(), (torch.randn(6, 3),)
@export_ready
def test_attends(): return Attends().eval(), (torch.randn(2, 5, 16),)
"""


@pytest.mark.gpu(1, pretended=True)
def test_0_doctor(machine: Machine) -> None:
    program = "from pytest_exportready.cli import main; main(['doctor', '--gpus=1', '--memory-gib=4'])"
    printed = machine.python(program)
    print(printed)
    assert printed.endswith("Can this machine run pytest --export-ready? Yes")


@pytest.mark.gpu(1, pretended=True)
def test_1_forks(machine: Machine) -> None:
    """A question for devices makes forks useless, unless NVML answers it."""
    assert machine.python(ASKS) == "1"
    assert machine.python(ASKS, PYTORCH_NVML_BASED_CUDA_CHECK="1") == "0"


@pytest.mark.gpu(1, pretended=True)
def test_2_a_case_on_the_gpu(machine: Machine) -> None:
    cases = """
@export_ready(scenarios=["as_is", "plain"], dynamic_batch=True)
def test_net(): return net(), (torch.randn(4, 3, 8, 8),)
"""
    outcomes = machine.judge(NET + cases, "--export-ready-device=cuda")
    assert outcomes == {"test_net[as_is-cuda]": "passed", "test_net[plain-cuda]": "passed"}
    for result in machine.project.results().values():
        assert result.readiness is not None
        print(result.nodeid, result.readiness.peak_gpu_mib, "MiB", [s.facts for s in result.readiness.stages])
        assert result.readiness.peak_gpu_mib > 0


@pytest.mark.gpu(1, pretended=True)
def test_3_dtypes_and_kernels(machine: Machine) -> None:
    """bf16, fp16, cuDNN's benchmark, atomic additions, attention."""
    outcomes = machine.judge(NET + KINDS, "--export-ready-device=cuda")
    assert len(outcomes) == 5
    assert set(outcomes.values()) == {"passed"}


@pytest.mark.gpu(1, pretended=True)
@pytest.mark.parametrize("lower", ["decompose", "aotinductor", "onnx"])
def test_4_cpu_cases(machine: Machine, lower: str) -> None:
    if lower == "onnx":
        pytest.importorskip("onnxruntime")
    cases = f'@export_ready(lower="{lower}", strict="both")\ndef test_net(): return ready()\n'
    assert machine.judge(cases) == {"test_net": "passed"}


@pytest.mark.gpu(1, pretended=True)
def test_5_aotinductor(machine: Machine) -> None:
    """A missing toolkit is never the model's failure; with one, real GPUs pass."""
    cases = '@export_ready(lower="aotinductor")\ndef test_net(): return ready()\n'
    outcome = machine.judge(cases, "--export-ready-device=cuda")["test_net[cuda]"]
    assert outcome in (("passed", "infra at aotinductor") if machine.real else ("infra at aotinductor",))


@pytest.mark.gpu(1)
def test_6_reference_models(machine: Machine) -> None:
    machine.project.write("")
    outcomes = machine.run("--export-ready", "--export-ready-device=cuda", "--export-ready-reference-models=always")
    assert len(outcomes) == 32
    assert set(outcomes.values()) == {"passed"}


@pytest.mark.gpu(1, pretended=True)
def test_7_target_device(machine: Machine) -> None:
    """A program of the CPU runs on the GPU; a device in the source is found."""
    cases = """
class Fixed(nn.Module):
    def forward(self, x): return x + torch.arange(3)
@export_ready
def test_net(): return ExportCase(net(), (torch.randn(2, 3, 8, 8),), target_device="cuda")
@export_ready
def test_bf16():
    return ExportCase(nn.Linear(4, 2).bfloat16().eval(), (torch.ones(2, 4).bfloat16(),), target_device="cuda")
@export_ready(scenarios="as_is")
def test_fixed(): return ExportCase(Fixed().eval(), (torch.randn(2, 3),), target_device="cuda")
"""
    outcomes = machine.judge(NET + cases)
    assert outcomes == {"test_net": "passed", "test_bf16": "passed", "test_fixed[as_is]": "failed at inspect"}
    results = machine.project.results()
    facts = [s.facts for s in results["test_net"].readiness.stages if s.name == "portability"]  # type: ignore[union-attr]
    print(facts)
    assert facts[0]["ran_there"]


@pytest.mark.gpu(1, pretended=True)
def test_8_ranks_share_a_gpu(machine: Machine) -> None:
    machine.project.write("""
import torch.distributed as dist
@pytest.mark.world(2, gpus=1, backend="gloo")
def test_shared(world):
    total = torch.ones(2, device=world.device)
    dist.all_reduce(total)
    assert world.device.index == 0 and total.tolist() == [2.0, 2.0]
@pytest.mark.world(2)
def test_cpu(world): assert world.device.type == "cpu"
""")
    machine.run("--junitxml=exportready/junit.xml")
    assert machine.project.outcomes() == {"test_shared": "passed", "test_cpu": "passed"}


@pytest.mark.gpu(1, pretended=True)
def test_9_memory_is_freed(machine: Machine) -> None:
    """After each of five cases, in the ranks that stay and in the pytest process."""
    cases = """
@export_ready(scenarios="as_is")
@pytest.mark.parametrize("number", range(5))
def test_large(number):
    left = torch.cuda.memory_allocated()
    assert left < 2**20, f"{left} bytes are left of the case before"
    return nn.Linear(2048, 2048, device="cuda").eval(), (torch.randn(2, 2048, device="cuda"),)
"""
    assert set(machine.judge(cases, "--export-ready-device=cuda").values()) == {"passed"}
    assert set(machine.judge(cases).values()) == {"passed"}


@pytest.mark.gpu(1, pretended=True)
def test_9_memory_of_a_program(machine: Machine) -> None:
    """The budget counts weights and what a call allocates; on the CPU it is not measured."""
    cases = """
@export_ready(scenarios="as_is", budget={"gpu_mib": LIMIT})
def test_large(): return nn.Linear(1024, 1024).eval(), (torch.randn(1024, 1024),)
"""
    assert machine.judge("LIMIT = 20" + cases, "--export-ready-device=cuda") == {"test_large[as_is-cuda]": "passed"}
    (result,) = machine.project.results().values()
    assert result.readiness is not None
    assert result.readiness.peak_gpu_mib > 8
    assert result.readiness.peak_gpu_reserved_mib >= result.readiness.peak_gpu_mib
    outcomes = machine.judge("LIMIT = 5" + cases, "--export-ready-device=cpu,cuda")
    assert outcomes == {"test_large[as_is-cpu]": "passed", "test_large[as_is-cuda]": "failed at budget"}


@pytest.mark.gpu(1)
def test_10_a_kernel_that_hangs(machine: Machine) -> None:
    machine.project.write("""
@pytest.mark.world(1, gpus=1, timeout=5)
def test_sleeps():
    torch.cuda._sleep(200_000_000_000)
    torch.cuda.synchronize()
@pytest.mark.world(1, gpus=1)
def test_after_it(world): assert torch.ones(2, device=world.device).sum().item() == 2
""")
    machine.run("--junitxml=exportready/junit.xml")
    assert machine.project.outcomes() == {"test_sleeps": "failed", "test_after_it": "passed"}


@pytest.mark.gpu(1, pretended=True)
def test_11_what_reports_say_of_the_machine(machine: Machine) -> None:
    program = "from pytest_exportready import topology; print(topology().key, topology().key, topology().gpus)"
    one, other, *gpus = machine.python(program).split(" ", 2)
    print(gpus)
    assert one == other
    assert "name=" in gpus[0]
