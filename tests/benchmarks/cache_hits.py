"""The cost of a second run of the reference models with --export-ready-cache=on.

    python tests/benchmarks/cache_hits.py [--lower aotinductor] [--models mlp vit]

Two runs in one empty folder. "beyond the exports" is the time of each case from training to verdict, without the stage
``export``, which runs each time: the graph is part of the cache key. Training also runs each time, as weights are part
of the key; its time is printed separately. The whole process also imports torch and starts ranks.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pytest_exportready.report.junit import read_junit
from pytest_exportready.report.run import Run

PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--export-ready", "--export-ready-cache=on"]


def seconds(run: Run, *without: str) -> float:
    """Return the seconds of all cases, without the named stages."""
    judged = [result.readiness for result in run.results if result.readiness]
    left_out = [stage.seconds for each in judged for stage in each.stages if stage.name in without]
    return sum(each.seconds for each in judged) - sum(left_out)


def hits(run: Run) -> str:
    judged = [result.readiness for result in run.results if result.readiness]
    return f"{sum(any(stage.cached for stage in each.stages) for each in judged)} of {len(judged)} cases from the cache"


def write_cases(folder: Path, models: list[str], lower: list[str]) -> None:
    """Write the reference models as a file of cases with more options."""
    imports = [f"from exportready_reference_models.{name} import test_{name}" for name in models]
    mark = f"pytestmark = pytest.mark.export_ready(lower={lower})" if lower else ""
    (folder / "test_models.py").write_text("\n".join(["import pytest", *imports, mark, ""]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lower", nargs="*", default=[], help="only with --models")
    parser.add_argument("--models", nargs="*", default=[])
    asked = parser.parse_args()
    runs, walls = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if asked.models:
            write_cases(folder, asked.models, asked.lower)
        chosen = ["test_models.py"] if asked.models else []
        for _ in range(2):
            started = time.perf_counter()
            subprocess.run([*PYTEST, *chosen], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            walls.append(time.perf_counter() - started)
            runs.append(read_junit(folder / "exportready/junit.xml"))
    measured = {
        "beyond the exports": [seconds(run, "export") for run in runs],
        "and the training": [seconds(run, "export", "train") for run in runs],
        "training": [seconds(run) - seconds(run, "train") for run in runs],
        "exports": [seconds(run) - seconds(run, "export") for run in runs],
        "whole process": walls,
    }
    for words, (first, second) in measured.items():
        print(f"{words}: {first:.1f} s, then {second:.1f} s, ratio {second / first:.2f}")
    print("; then ".join(map(hits, runs)))
    print(runs[1].verdict)


if __name__ == "__main__":
    main()
