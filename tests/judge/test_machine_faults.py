"""Faults of the machine, planted in every call of a model: never a finding, and memory is freed for a second try."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from pytest_exportready import export_ready_check
from pytest_exportready.analysis.execution.machine_faults import MachineFault, fault_in, machine_fault
from pytest_exportready.case.readiness import Readiness

NO_MEMORY = "CUDA out of memory. Tried to allocate 20.00 MiB."


class Net(nn.Module):
    """Raises at one of its calls, or at all from then on."""

    error: Exception = torch.OutOfMemoryError(NO_MEMORY)
    calls = 0
    first, last = 10**9, 10**9

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        Net.calls += 1
        if Net.first <= Net.calls <= Net.last:
            raise Net.error
        return self.linear(x).relu()


@pytest.fixture(autouse=True)
def unplanted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("error", "calls", "first", "last"):
        monkeypatch.setattr(Net, name, getattr(Net, name))


def judged() -> Readiness:
    Net.calls = 0
    torch.manual_seed(0)
    return export_ready_check(Net().eval(), (torch.ones(3, 4),), dynamic_batch=True, trainable=True, lower="decompose")


def test_at_every_call() -> None:
    """If it fails once, the stage runs again; if memory stays short, the case has no verdict."""
    assert judged().ready
    total = Net.calls
    assert total > 15
    for call in range(1, total + 1):
        Net.first = Net.last = call
        assert judged().ready, f"call {call} of {total}"
        Net.last = 10**9
        readiness = judged()
        assert (readiness.outcome, readiness.errors) == ("infra", ()), f"from call {call} of {total}: {readiness}"
        assert "Use a GPU with more memory" in str(readiness)


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), "too little free"),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 99"),
            "machine",
        ),
        (MemoryError(), "the machine has too little free memory"),
        (
            RuntimeError("CUDA error: no kernel image is available for execution on the device"),
            "no kernels for the GPU",
        ),
        (RuntimeError("The NVIDIA driver on your system is too old (found version 11040)."), "Update the driver"),
        (RuntimeError("CUDA error: CUDA-capable device(s) is/are busy or unavailable"), "compute mode"),
        (RuntimeError("CUDA error: uncorrectable ECC error encountered"), "Xid"),
        (
            RuntimeError("NCCL error in: NCCLUtils.hpp:94, unhandled system error (run with NCCL_DEBUG=INFO)"),
            "shm-size",
        ),
        (
            OSError("CUDA_HOME environment variable is not set. Please set it to your CUDA install root."),
            "CUDA toolkit",
        ),
        (RuntimeError("/tmp/x.cpp:3: fatal error: nv/target: No such file or directory"), "CUDA toolkit"),
        (RuntimeError("Failed to find C compiler. Please specify via CC environment variable"), "C compiler"),
        (ImportError("cuda_utils.so: undefined symbol: cuFuncSetAttribute"), "cannot be loaded"),
        (OSError(28, "No space left on device"), "disk"),
    ],
)
def test_kinds(error: Exception, part: str) -> None:
    """Also as the cause of another exception, and in forward."""
    try:
        try:
            raise error
        except Exception as inner:
            raise ValueError("the export failed") from inner
    except ValueError as outer:
        fault = machine_fault(outer)
    assert fault is not None
    assert part in f"{fault.problem}. {fault.fix}"
    Net.error, Net.first = error, 1
    readiness = judged()
    assert (readiness.outcome, readiness.errors) == ("infra", ())


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: device-side assert triggered"),  # an index out of range: the model's
        RuntimeError("mat1 and mat2 shapes cannot be multiplied"),
        ValueError("CUDA out of memory is what my model is about"),
        IndexError("index out of range in self"),
    ],
)
def test_what_a_model_does_wrong(error: Exception) -> None:
    assert machine_fault(error) is None
    Net.error, Net.first = error, 1
    assert judged().outcome == "failed"


def test_a_machine_fault_is_not_an_exception() -> None:
    """No `except Exception` of a stage takes it for a module that refuses an input."""
    assert not issubclass(MachineFault, Exception)
    fault = fault_in(NO_MEMORY)
    assert fault is not None
    assert fault.memory
    assert fault_in("ValueError: nothing special") is None
