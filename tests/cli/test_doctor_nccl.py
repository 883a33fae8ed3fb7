"""What becomes of ranks that connect, fail, crash or hang; the ranks here need no GPU."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from pytest_exportready.cli._doctor_nccl import nccl_row
from pytest_exportready.cli._doctor_row import Row

RANK = "import os, sys, time; rank = int(os.environ['RANK']); "


def row(source: str, seconds: float = 60.0) -> Row:
    return nccl_row(2, [sys.executable, "-c", RANK + source], seconds)


def test_ranks_find_each_other() -> None:
    """The environment is one in which torch makes a process group."""
    add = (
        "import torch, torch.distributed as dist; dist.init_process_group('gloo'); total = torch.ones(1); "
        "dist.all_reduce(total); assert (total.item(), rank) == (2.0, dist.get_rank()); dist.destroy_process_group()"
    )
    assert row(add) == Row("NCCL", True, "all_reduce over 2 GPUs")


def test_no_rank_survives_one_that_hangs(tmp_path: Path) -> None:
    source = f"open(r'{tmp_path}/' + str(os.getpid()), 'w').close(); rank and time.sleep(600)"
    start = time.monotonic()
    found = row(source, seconds=10.0)
    assert time.monotonic() - start < 60
    assert found.found == "an all_reduce over 2 GPUs takes longer than 10 s"
    started = [int(file.name) for file in tmp_path.iterdir()]
    assert len(started) == 2
    for pid in started:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("raise RuntimeError('all_reduce gives 7')", "rank 1 fails: RuntimeError: all_reduce gives 7"),
        (
            "print('host:7:9 [1] NCCL WARN Error while creating shared memory segment'); sys.exit("
            "'[rank1]: Traceback\\n[rank1]:     raise SomeError\\n[rank1]: torch.distributed.DistBackendError: NCCL')",
            "rank 1 fails: torch.distributed.DistBackendError: NCCL; NCCL: Error while creating shared memory segment",
        ),
        ("os.abort()", "rank 1 ended with signal SIGABRT"),
        ("sys.exit(3)", "rank 1 fails: it prints nothing"),
    ],
)
def test_the_rank_that_fails_is_named_and_the_others_are_ended(source: str, problem: str) -> None:
    start = time.monotonic()
    found = row(f"rank or time.sleep(600)\n{source}")
    assert time.monotonic() - start < 30
    assert (found.found, found.ok) == (problem, False)
    assert "--shm-size=1g" in found.fix
