"""Runs to report on."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_exportready.case.finding import Finding
from pytest_exportready.case.readiness import Readiness, StageResult
from pytest_exportready.report.run import Outcome, Run, TestResult

HOSTILE = (
    "<script>window.ran = 1</script>",
    "<!--<script>",
    "</title></style></pre></summary><img src=x onerror='window.ran = 1'>",
    "javascript:window.ran=1",
    "\"'><svg onload=window.ran=1>",
    "]]> &lt; &amp; &#x3c; &bomb;",
    "{{ 7 * 7 }}{% raw %}",
    "\ud800 lone \x00 nul \x1b[31mred\x1b[0m \x1b]8;;http://x\x07link \uffff \u202e",
    "two\r\nlines\rand\ttabs",
    "x" * 5_000,
)


def readiness(case: str, failing: str = "", *findings: Finding, scenario: str = "plain") -> Readiness:
    """A case that went through four stages and failed at ``failing``."""
    stages: list[StageResult] = []
    for name in ("train", "inspect", "export", "parity"):
        past = any(stage.outcome == "failed" for stage in stages)
        outcome = "skipped" if past else "failed" if name == failing else "passed"
        stages.append(StageResult(name, outcome, 0.25, "", "", {"largest": 1.5e-7, "sizes": [1, 2]}))
    return Readiness(case, scenario, tuple(stages), findings, (("ER302", "batchnorm_frozen"),), (), 1.0)


def result(name: str, outcome: Outcome = "passed", record: Readiness | None = None, **more: Any) -> TestResult:
    defaults = {"file": "tests/test_export.py", "line": 7, "seconds": 1.25, "outcome": outcome}
    return TestResult(
        f"tests/test_export.py::{name}", "tests.test_export", name, readiness=record, **{**defaults, **more}
    )


FROZEN = Finding(
    "ER302", "batchnorm_frozen", "error", "net.bn1", "is in training mode", "model.eval()", stage="inspect"
)
GRADIENTS = Finding("ER305", "no_residual_gradients", "warning", "net.fc", "holds a gradient", "zero_grad()")


@pytest.fixture
def run() -> Run:
    """One result of each outcome."""
    results = (
        result("test_mlp", "passed", readiness("mlp")),
        result(
            "test_vit",
            "failed",
            readiness("vit", "inspect", FROZEN, GRADIENTS),
            message=str(FROZEN),
            text="why",
        ),
        result("test_gpt", "infra", message="worker 'gw0' crashed", text="in full", output="--- log ---\n1\n"),
        result("test_gan", "skipped", message="needs 2 GPUs"),
        result("test_moe", "xfailed", readiness("moe", "export"), message="known"),
        result("test_old", "missing", message="was there last night"),
        result("test_dlrm", "passed", readiness("dlrm", "", GRADIENTS), earlier=("rank 1 lost",)),
        result("test_bert", "passed", readiness("bert"), message="passed although expected to fail"),
    )
    properties = {"torch": "2.13.0", "python": "3.11"}
    return Run(results, properties, "2026-11-29T14:03:11+00:00", "runner-7", 12.5)


@pytest.fixture
def hostile_run() -> Run:
    """Every text that can come from outside is an attack or an accident."""

    def attacked(index: int, text: str) -> TestResult:
        finding = Finding(text, text, "error", text, text, text, text, 3, None, text, "")
        stage = StageResult(text, "failed", float("nan"), text, text, {text: [text, float("inf"), {"deep": text}]})
        record = Readiness(f"{index} {text}", text, (stage,), (finding,) * 3, ((text, text),), (text,), 1e-7, text)
        more = {"message": text, "text": text, "output": text * 3, "earlier": (text,), "seconds": 1e-5}
        return TestResult(
            f"{text}::{index}", text, f"{index} {text}", text, 1, outcome="failed", readiness=record, **more
        )

    results = tuple(attacked(index, text) for index, text in enumerate(HOSTILE))
    return Run(results, {text[:50]: text for text in HOSTILE}, "yesterday <b>", "<i>host\x00", 3.0)
