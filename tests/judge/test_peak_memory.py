"""The figure is of the work and not of what was there before; asking for it starts no GPU."""

from __future__ import annotations

import sys

import pytest

from pytest_exportready.analysis.execution import gpu_peak
from pytest_exportready.judge import peak_memory
from pytest_exportready.judge.peak_memory import PeakMemory

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux keeps the peak")


def _touch(mib: int) -> None:
    held = bytearray(mib << 20)
    held[::4096] = b"x" * len(held[::4096])


@linux
def test_what_was_given_back_counts_and_what_was_before_does_not() -> None:
    _touch(300)
    peak = PeakMemory()
    _touch(100)
    assert 90 <= peak.mib() <= 200


@linux
def test_nothing_is_almost_nothing() -> None:
    assert PeakMemory().mib() < 20


def test_where_it_cannot_be_told_there_is_no_figure(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setattr(peak_memory, "_PROCESS", tmp_path)
    peak = PeakMemory()
    assert peak.mib() == 0.0


class Cuda:
    """torch.cuda in use, with two GPUs; the second comes to hold more."""

    def __init__(self, initialized: bool) -> None:
        self.initialized = initialized
        self.peaks = {0: 5 << 20, 1: 70 << 20}
        self.reset: list[int] = []

    def is_initialized(self) -> bool:
        return self.initialized

    def device_count(self) -> int:
        return 2

    def memory_allocated(self, index: int) -> int:
        return 4 << 20

    def max_memory_allocated(self, index: int) -> int:
        return self.peaks[index]

    def max_memory_reserved(self, index: int) -> int:
        return 80 << 20

    def reset_peak_memory_stats(self, index: int) -> None:
        self.reset.append(index)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    torch = type("torch", (), {"cuda": Cuda(True)})
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(gpu_peak, "torch", torch)
    return torch.cuda


def test_the_gpu_that_needed_most(cuda: Cuda) -> None:
    peak = PeakMemory()
    assert (peak.gpu_mib(), peak.gpu_reserved_mib()) == (66.0, 80.0)
    assert cuda.reset == [0, 1]


def test_cuda_that_starts_within_the_case(cuda: Cuda) -> None:
    cuda.initialized = False
    peak = PeakMemory()
    assert (peak.gpu_mib(), peak.gpu_reserved_mib(), cuda.reset) == (0.0, 0.0, [])
    cuda.initialized = True
    assert peak.gpu_mib() == 70.0


def test_the_peak_of_a_part(cuda: Cuda) -> None:
    """Measuring a part does not hide what came before it."""
    peak = PeakMemory()
    gpu_peak.begin_part()
    cuda.peaks = {0: 5 << 20, 1: 6 << 20}
    assert peak.gpu_mib() == 66.0
    assert PeakMemory().gpu_mib() == 2.0
