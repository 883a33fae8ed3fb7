"""Work in a forked child: only its result returns, nothing of it remains, and a crash is described with its place."""

from __future__ import annotations

import gc
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pytest_exportready.analysis.processes.child import ProcessDied, TookTooLong, in_child

SLEEPS = [sys.executable, "-c", "import time; time.sleep(600)"]


def ended(pid: int) -> bool:
    """Return whether the process has ended, or ends within a minute."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], 60)[0])
    finally:
        os.close(process)


def test_nothing_changes_here_and_no_zombie_remains(tmp_path: Path) -> None:
    seen: list[int] = []
    in_child(lambda: seen.append((tmp_path / "pid").write_text(str(os.getpid()))), 60)
    assert seen == []
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_results() -> None:
    """JSON data of any size is returned; other data is an error."""
    data = {"text": "a\0b é\ud800 RuntimeError: x", "numbers": [1, 2.5, None, True], "much": "x" * 100_000}
    assert in_child(lambda: data, 60) == data
    with pytest.raises(RuntimeError, match=r"TypeError: .* not JSON serializable"):
        in_child(object, 60)


def test_an_error_without_text() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    def raises() -> None:
        raise Mute

    with pytest.raises(ProcessDied, match="exit code 0"):
        in_child(raises, 60)


def test_errors() -> None:
    with pytest.raises(RuntimeError, match="KeyError: 'x'"):
        in_child(lambda: {}["x"], 60)
    with pytest.raises(RuntimeError, match=r"ValueError: é{1000}"):
        in_child(lambda: exec("raise ValueError('é' * 100_000)"), 60)
    with pytest.raises(ProcessDied, match=r"exit code 3$"):
        in_child(lambda: os._exit(3), 60)


def test_a_crash_is_described_with_its_place() -> None:
    def crashes() -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    with pytest.raises(ProcessDied, match=r"signal SIGSEGV, in test_child\.py:\d+ \(crashes\) < ") as caught:
        in_child(crashes, 60)
    assert not isinstance(caught.value, TookTooLong)


def test_a_timeout_kills_the_child_and_its_processes(tmp_path: Path) -> None:
    """The message names the place."""

    def hangs() -> None:
        started = subprocess.Popen(SLEEPS)
        (tmp_path / "pid").write_text(str(started.pid))
        started.wait()

    with pytest.raises(TookTooLong, match=r"longer than 1 s, in subprocess\.py:\d+ \(.*\) < "):
        in_child(hangs, 1)
    assert ended(int((tmp_path / "pid").read_text()))


def test_processes_that_it_leaves_are_killed(tmp_path: Path) -> None:
    in_child(lambda: (tmp_path / "pid").write_text(str(subprocess.Popen(SLEEPS).pid)), 60)
    assert ended(int((tmp_path / "pid").read_text()))


def test_an_interrupt_ends_it(tmp_path: Path) -> None:
    """Ctrl-C reaches this process only: the child is in another process group."""
    os.mkfifo(tmp_path / "ready")
    main = threading.main_thread().ident or 0

    def interrupts() -> None:
        (tmp_path / "pid").write_text((tmp_path / "ready").read_text())
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupts).start()

    def hangs() -> None:
        (tmp_path / "ready").write_text(str(os.getpid()))
        signal.pause()

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a worker of xdist ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            in_child(hangs, 60)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert ended(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("collects", [True, False])
def test_the_garbage_collector_is_restored(collects: bool) -> None:
    was = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        in_child(lambda: None, 60)
        assert gc.isenabled() is collects
    finally:
        (gc.enable if was else gc.disable)()


class _Cycle:
    """An object that only the garbage collector frees."""

    def __init__(self, kept: object) -> None:
        self.itself, self.kept = self, kept


class _Finalized:
    def __init__(self, file: Path) -> None:
        self.file, self.pid = file, os.getpid()

    def __del__(self) -> None:
        if os.getpid() != self.pid:
            self.file.touch()


def test_garbage_of_this_process_is_not_collected_in_the_child(tmp_path: Path) -> None:
    """Garbage of the child is."""
    gc.collect()
    gc.disable()
    try:
        _Cycle(_Finalized(tmp_path / "finalized"))

        def collects() -> None:
            _Cycle(bytearray(10))
            assert gc.isenabled()
            assert gc.collect() > 0

        in_child(collects, 60)
        assert not (tmp_path / "finalized").exists()
    finally:
        gc.enable()


def test_a_process_group_among_the_garbage() -> None:
    """Destroying it would wait for threads that the child does not have. In a separate process, as it changes torch."""
    script = """
import gc
import torch.distributed as dist
from pytest_exportready.analysis.processes.child import in_child

class Cycle: pass
gc.disable()
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
cycle = Cycle()
cycle.itself, cycle.group = cycle, dist.group.WORLD
dist.destroy_process_group()
del cycle
in_child(gc.collect, 60)
print("ended")
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ran.stdout == "ended\n", ran.stderr
