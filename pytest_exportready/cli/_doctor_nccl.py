"""Show that NCCL connects the GPUs of this machine."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from pytest_exportready.analysis.processes.external_program import Program, ProgramFailed
from pytest_exportready.cli._doctor_row import Row

_SECONDS = 60.0
_PAUSE = 0.1  # seconds between two looks
_RANK = (sys.executable, "-c", "from pytest_exportready.analysis.processes.gpu_trial import add; add()")
_WARNING = re.compile(r"NCCL WARN (.*)")
_HERE = "127.0.0.1"


def nccl_row(gpus: int, rank: Sequence[str] = _RANK, seconds: float = _SECONDS) -> Row:
    """Return whether ``gpus`` processes, each on a GPU of its own, add their ranks.

    Args:
        rank: The program of each process. It finds its rank and a store in its environment, as under a launcher.
        seconds: The time limit. All processes have ended when this function returns.
    """
    fix = "In a container, use `--shm-size=1g` or `--ipc=host`; otherwise look at `nvidia-smi topo -m`."
    try:
        _add(gpus, rank, seconds)
    except ProgramFailed as error:
        return Row("NCCL", False, str(error), fix)
    return Row("NCCL", True, f"all_reduce over {gpus} GPUs")


def _add(gpus: int, rank: Sequence[str], seconds: float) -> None:
    """Run the ranks until all have ended. Raises ProgramFailed with the first rank that fails."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    store = TCPStore(_HERE, 0, is_master=True, wait_for_workers=False)  # this process never takes part
    end = time.monotonic() + seconds
    with ExitStack() as all_of_them:
        ranks = [
            all_of_them.enter_context(Program(rank, _environment(number, gpus, store.port))) for number in range(gpus)
        ]
        while any(one.code is None for one in ranks):
            _look(ranks)
            if time.monotonic() > end:
                warned = next(filter(None, map(_warned, ranks)), "")
                raise ProgramFailed(f"an all_reduce over {gpus} GPUs takes longer than {seconds:g} s{warned}")
            time.sleep(_PAUSE)
        _look(ranks)


def _look(ranks: Sequence[Program]) -> None:
    """Raise ProgramFailed if a rank has failed."""
    for number, one in enumerate(ranks):
        if one.code:
            raise ProgramFailed(f"rank {number} {one.problem}{_warned(one)}")


def _warned(rank: Program) -> str:
    """Return the first warning of NCCL, as the continuation of a sentence; empty if there is none."""
    found = _WARNING.search(rank.printed + rank.errors)
    return f"; NCCL: {found[1].strip()}" if found else ""


def _environment(rank: int, size: int, port: int) -> Mapping[str, str]:
    return {
        "NCCL_DEBUG": "WARN",
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": _HERE,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # the store of this process: no rank opens a port
    }
