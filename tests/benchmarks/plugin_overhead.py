"""The overhead of the installed plugin in a project that does not use it.

    python tests/benchmarks/plugin_overhead.py [TESTS] [PAIRS]

Compares the CPU seconds of pytest over TESTS plain tests, with the plugins unused and disabled, in turn. Prints the
ratio (limit 1.03) and fails if torch was imported.
"""

from __future__ import annotations

import os
import statistics
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


def main(tests: int = 2000, pairs: int = 7) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "conftest.py").write_text(CONFTEST)
        for number in range(20):
            body = "".join(f"def test_{i}():\n    assert {i} >= 0\n" for i in range(tests // 20))
            (folder / f"test_{number}.py").write_text(body)
        cpu_seconds(folder), cpu_seconds(folder, *OFF)
        ratios = [cpu_seconds(folder) / cpu_seconds(folder, *OFF) for _ in range(pairs)]
    print(f"{tests} tests: plugin / no plugin = {statistics.median(ratios):.3f} (limit 1.03)")
    print("pairs: " + " ".join(f"{ratio:.3f}" for ratio in ratios))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
