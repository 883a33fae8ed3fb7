"""What a second run of the reference models costs with --export-ready-cache=on.

    python tests/benchmarks/cache_hits.py

Two runs in one empty folder. Prints, for each, the seconds of all stages but the exports, once with and once without
those of training (which no cache can leave out: the weights are what is looked up), and their ratio.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from pytest_exportready.report.junit import read_junit
from pytest_exportready.report.run import Run

PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--export-ready", "--export-ready-cache=on"]


def seconds(run: Run, *without: str) -> float:
    stages = [stage for result in run.results if result.readiness for stage in result.readiness.stages]
    return sum(stage.seconds for stage in stages if stage.name not in without)


def main() -> None:
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            subprocess.run(PYTEST, cwd=folder, check=True, stdout=subprocess.DEVNULL)
            runs.append(read_junit(Path(folder) / "exportready/junit.xml"))
    for words, without in {"beyond the exports": ("export",), "and the training": ("export", "train")}.items():
        first, second = (seconds(run, *without) for run in runs)
        print(f"{words}: {first:.1f} s, then {second:.1f} s, ratio {second / first:.2f}")
    print(runs[1].verdict)


if __name__ == "__main__":
    main()
