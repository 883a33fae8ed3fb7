"""Take the pictures of the README again: python tests/pictures.py (needs Chromium).

Their pages come from the plugin itself: a run of the cases below, and a comparison of ten nights.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path
from zlib import crc32

from browser import Browser, installed

from pytest_exportready.case.finding import Finding
from pytest_exportready.case.readiness import Readiness, StageResult
from pytest_exportready.report.nightly.compare import compare
from pytest_exportready.report.nightly.night import Night
from pytest_exportready.report.nightly.page import page
from pytest_exportready.report.run import Run, TestResult
from pytest_exportready.stages import parity, shapes

FOLDER = Path(__file__).parents[1] / ".github"
WIDTH, HEIGHT = 1240, 1150  # pixels

CASES = """
import pytest
import torch
from torch import nn

from pytest_exportready import export_ready

SIX = torch.randn(6, 8)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.head = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 10)

    def forward(self, images):
        return self.head(self.bn(self.conv(images)).relu().mean((2, 3)))


class Gated(nn.Linear):
    def forward(self, x):
        y = super().forward(x)
        if y.sum() > 0:
            return y
        return -y


class FixedBatch(nn.Linear):
    def forward(self, x):
        return super().forward(x).view(6, 2, 4).sum(1)


@export_ready(dynamic_batch=True, scenarios=["plain", "ddp", "ddp_amp"])
def test_classifier():
    return Classifier(), (torch.randn(4, 3, 16, 16),)


@export_ready(dynamic_batch=True)
def test_gated():
    return Gated(8, 8).eval(), (SIX,)


@export_ready(dynamic_batch=True)
def test_fixed_batch():
    return FixedBatch(8, 8).eval(), (SIX,)


@export_ready(dynamic_batch=True, scenarios=["plain", "ddp", "ddp_amp", "fsdp2"])
@pytest.mark.parametrize("width", [8, 16])
def test_mlp(width):
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 2)).eval(), (SIX,)
"""


def report(folder: Path) -> Path:
    """Run the cases and return the page."""
    (folder / "test_shop.py").write_text(CASES)
    command = [sys.executable, "-m", "pytest", "--export-ready", "--export-ready-reference-models=never"]
    subprocess.run(command, cwd=folder, check=False)
    return folder / "exportready" / "report.html"


TONIGHT = datetime(2026, 11, 29, 2, 0, tzinfo=timezone.utc)
STAGES = ("train", "inspect", "eager", "export", "parity", "reload", "shapes")
ATTENTION = parity.AGREES.error(
    "output",
    "The program differs from the eager module on the example inputs: largest error 0.3 x output rms (signal to error "
    "16 dB), limit 1e-05 x (100 dB).",
    "Check `forward` for Python state, branches on values and modes that tracing fixed.",
    file="models/attention.py",
    line=61,
    stage="parity",
)
DETECTOR = shapes.AGREES.error(
    "x.shape[0]",
    "At size 1, output[1] of the program differs from the eager module: largest error 0.02 x output rms (signal to "
    "error 34 dB), limit 1e-05 x (100 dB).",
    "Look for a Python number that is computed from the size.",
    file="models/detector.py",
    line=118,
    stage="shapes",
)


def result(case: str, finding: Finding | None = None) -> TestResult:
    """Return the result of a case such as ``vit[ddp]``, with a finding or ready."""
    name = f"test_{case}"
    at = STAGES.index(finding.stage) if finding else len(STAGES)
    outcomes = ["passed"] * at + ["failed"] * (finding is not None) + ["skipped"] * (len(STAGES) - at - 1)
    stages = tuple(StageResult(stage, outcome, 2.0) for stage, outcome in zip(STAGES, outcomes, strict=True))  # type: ignore[arg-type]
    record = Readiness(case, "plain", stages, (finding,) if finding else ())
    return TestResult(
        f"tests/test_export.py::{name}",
        "tests.test_export",
        name,
        "tests/test_export.py",
        3,
        outcome="failed" if finding else "passed",
        message=str(finding) if finding else "",
        readiness=record,
    )


def night(days: int, torch: str, *, attention: bool = False, detector: bool = False, lost: bool = False) -> Night:
    """Return a night with its failures.

    Args:
        days: How many days before tonight it is.
        lost: Whether one cell did not run.
    """
    when = TONIGHT - timedelta(days=days)
    models = ["vit", "bert", "detector", "mlp", "unet", "lstm", "dlrm"]
    cells = [f"{model}{scenario}" for model in models for scenario in ("", "[ddp]", "[fsdp2]")]
    faults = {"vit": ATTENTION if attention else None, "bert": ATTENTION if attention else None}
    faults["detector"] = DETECTOR if detector else None
    results = [
        result(cell, faults.get(cell.partition("[")[0])) for cell in cells if not (lost and cell == "mlp[fsdp2]")
    ]
    properties = {
        "torch": torch,
        "torch.git_version": f"{crc32(torch.encode()):08x}" * 5,
        "commit": "5c48869" * 5,
        "gpu": "none (CPU only)",
    }
    return Night(f"{when:%Y-%m-%d}", (Run(tuple(results), properties, when.isoformat(), "runner", 900.0),))


def nightly(folder: Path) -> Path:
    """Compare ten nights and return the page."""
    nights = [
        night(
            days,
            f"2.16.0.dev{TONIGHT - timedelta(days=days):%Y%m%d}+cu130",
            attention=not days,
            detector=days < 5,
            lost=not days,
        )
        for days in range(9, -1, -1)
    ]
    stable = night(0, "2.15.0+cu130", detector=True)
    path = folder / "regress.html"
    path.write_text(page(compare(nights[-2], nights[-1], history=nights[:-2], stable=stable)), encoding="utf-8")
    return path


def main() -> None:
    executable = installed()
    if executable is None:
        sys.exit("Chromium is not installed. Fix: `apt-get install chromium`.")
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(executable, Path(folder, "profile"))
        try:
            for name, file in (("report", report(Path(folder))), ("regress", nightly(Path(folder)))):
                browser.open(file.as_uri(), width=WIDTH, height=HEIGHT)
                browser.until("document.readyState === 'complete'")
                (FOLDER / f"{name}.png").write_bytes(browser.screenshot())
        finally:
            browser.close()


if __name__ == "__main__":
    main()
