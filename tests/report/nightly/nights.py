"""Nights made in a line, for the tests of what is said about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from pytest_exportready.case.finding import Finding
from pytest_exportready.case.readiness import Readiness, StageResult
from pytest_exportready.report.nightly.compare import compare
from pytest_exportready.report.nightly.comparison import Comparison
from pytest_exportready.report.nightly.night import Night
from pytest_exportready.report.run import Run, TestResult

TONIGHT = datetime(2026, 11, 28, 2, 0, tzinfo=timezone.utc)
PROPERTIES = {"torch": "2.16.0.dev20261128+cpu", "commit": "a" * 40, "gpu": "none (CPU only)"}


def passed(name: str = "vit", *, pace: float = 20.0, without: str = "", nodes: int = 9, **more: Any) -> TestResult:
    stages = (StageResult("export", "passed", pace, facts={"nodes": nodes}), StageResult("parity", "passed", 1.0))
    kept = tuple(stage for stage in stages if stage.name != without)
    return TestResult(
        f"t.py::test_{name}", "t", f"test_{name}", "t.py", 3, readiness=Readiness(name, "plain", kept, ()), **more
    )


def failed(name: str = "vit", message: str = "TypeError: no", code: str = "ER401", **more: Any) -> TestResult:
    finding = Finding(code, "traces", "error", "net.fc", message, "mend it", "models/net.py", 8, stage="export")
    stages = (StageResult("export", "failed", 1.0), StageResult("parity", "skipped", reason="export did not pass"))
    record = Readiness(name, "plain", stages, (finding,))
    fields = {"outcome": "failed", "message": str(finding), "text": "in full", **more}
    return TestResult(f"t.py::test_{name}", "t", f"test_{name}", "t.py", 3, readiness=record, **fields)


def other(name: str, outcome: str, message: str = "why") -> TestResult:
    return TestResult(f"t.py::test_{name}", "t", f"test_{name}", "t.py", 3, outcome=outcome, message=message)  # type: ignore[arg-type]


def night(days: float, *results: TestResult, unread: tuple[str, ...] = (), **properties: str) -> Night:
    """A night ``days`` before tonight, under that day's torch."""
    when = TONIGHT - timedelta(days=days)
    properties = {
        **PROPERTIES,
        "torch": f"2.16.0.dev{when:%Y%m%d}+cpu",
        "torch.git_version": f"{when:%Y%m%d}" * 5,
        **properties,
    }
    return Night(f"n{days}", (Run(results, properties, when.isoformat(), "runner", 60.0),), unread)


def compared(*nights: Sequence[TestResult], stable: Sequence[TestResult] | None = None, **options: Any) -> Comparison:
    """The last of ``nights`` is tonight; each is a sequence of results."""
    made = [night(len(nights) - 1 - index, *results) for index, results in enumerate(nights)]
    arm = night(0.01, *stable, torch="2.15.0+cpu") if stable is not None else None
    return compare(made[-2], made[-1], history=made[:-2], stable=arm, **options)


def states(comparison: Comparison) -> Mapping[str, str]:
    return {change.cell.nodeid.removeprefix("t.py::test_"): change.state for change in comparison.changes}
