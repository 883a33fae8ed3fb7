"""The cost of the reports: CPU time of pytest with them, and of pytest with its own JUnit file.

    python tests/benchmarks/report_cost.py [TESTS] [PAIRS]

Both run the same TESTS plain tests. With our reports each test has the record of a case with 14 stages and 60
checks, and the run writes a JUnit file and the page. Prints our CPU seconds minus 1.1 times those of junitxml (limit 3
s for 10,000 tests), and the file sizes.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

CONFTEST = """\
import os
from pathlib import Path

OUT = os.environ.get("REPORT_COST_OUT")
STAGES = ("train inspect ranks export graphs decompose shapes parity reload portability layouts interface operators "
          "gradients").split()
CHECKED = [[f"ER{100 + number}", f"property_{number}_holds"] for number in range(60)]


def record(nodeid, failed):
    stages = [
        {"name": name, "outcome": "passed", "seconds": len(nodeid) / 97 * number, "facts": {"nodes": 120 + number}}
        for number, name in enumerate(STAGES)
    ]
    findings = []
    if failed:
        stages[-1]["outcome"] = "failed"
        findings = [{"code": "ER302", "name": "batchnorm_frozen", "severity": "error", "where": "net.bn1",
                     "message": "is in training mode", "fix": "model.eval()", "stage": "gradients"}]
    return {"case": nodeid, "scenario": "plain", "stages": stages, "findings": findings, "checked": CHECKED,
            "prepared": [], "seconds": 1.0}


if OUT:
    from pytest_exportready.report.collect_results import Gather
    from pytest_exportready.report.html import write_html
    from pytest_exportready.report.junit import write_junit

    gather = Gather()

    def pytest_runtest_logreport(report):
        if report.when == "call":
            report.exportready = record(report.nodeid, report.failed)
        gather.add(report)

    def pytest_sessionfinish():
        run = gather.run({"torch": "2.14.1"})
        write_junit(run, Path(OUT) / "junit.xml")
        write_html(run, Path(OUT) / "report.html")
"""


def cpu_seconds(folder: Path, *arguments: str, **environment: str) -> float:
    before = os.times()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:exportready"]
    command += ["-p", "no:exportready-world", "--tb=short", "--no-summary", *arguments]
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, env={**os.environ, **environment})
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main(tests: int = 10_000, pairs: int = 3) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, out = Path(name) / "suite", Path(name) / "out"
        folder.mkdir()
        out.mkdir()
        (folder / "conftest.py").write_text(CONFTEST)
        for number in range(100):
            body = "".join(f"def test_model_{i}():\n    assert {i} % 50 != 7\n" for i in range(tests // 100))
            (folder / f"test_{number}.py").write_text(body)
        cpu_seconds(folder)
        found = []
        for _ in range(pairs):
            junitxml = cpu_seconds(folder, f"--junitxml={out}/junitxml.xml")
            ours = cpu_seconds(folder, REPORT_COST_OUT=str(out))
            found.append((junitxml, ours, ours - 1.1 * junitxml))
        junitxml, ours, left = (statistics.median(column) for column in zip(*found, strict=True))
        print(f"{tests} tests: junitxml {junitxml:.2f} s, ours {ours:.2f} s, {ours / junitxml:.2f} times")
        print(f"ours - 1.1 x junitxml = {left:.2f} s (limit 3)")
        for path in sorted(out.iterdir()):
            print(f"{path.name}: {path.stat().st_size / 2**20:.2f} MiB")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
