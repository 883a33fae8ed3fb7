"""The overhead of the installed plugin in a project that does not use it.

    python tests/benchmarks/plugin_overhead.py [TESTS] [PAIRS]

Compares the CPU seconds of pytest over TESTS plain tests, with the plugins unused and disabled, in turn. Prints the
ratio of the smallest of each (limit 1.03), as other load of the machine only adds, and fails if torch was imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

OFF = ("-p", "no:exportready", "-p", "no:exportready-world")
CONFTEST = """\
import sys
def pytest_sessionfinish():
    assert "torch" not in sys.modules
"""


def cpu_seconds(folder: Path, *arguments: str) -> float:
    before = os.times()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main(tests: int = 2000, pairs: int = 20) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "conftest.py").write_text(CONFTEST)
        for number in range(20):
            body = "".join(f"def test_{i}():\n    assert {i} >= 0\n" for i in range(tests // 20))
            (folder / f"test_{number}.py").write_text(body)
        cpu_seconds(folder), cpu_seconds(folder, *OFF)
        times = [(cpu_seconds(folder), cpu_seconds(folder, *OFF)) for _ in range(pairs)]
    ratio = min(used for used, _ in times) / min(off for _, off in times)
    print(f"{tests} tests: plugin / no plugin = {ratio:.3f} (limit 1.03)")
    print("CPU seconds: " + " ".join(f"{used:.2f}/{off:.2f}" for used, off in times))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
