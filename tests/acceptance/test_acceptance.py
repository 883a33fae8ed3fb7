"""Public bug reports, rebuilt as small cases: every verdict is right."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from judge import judge_all

CASES = Path(__file__).parent / "cases"
NOT_COVERED: dict[str, str] = {}  # kinds that no check or stage finds yet, with the reason

# The code of the finding of each fault, and the place that it must name: a module or a line of the case.
EXPECTED = {
    "01": ("ER302", "bn"), "04": ("ER303", "DistributedDataParallel"), "07": ("ER801", "1.running_mean"),
    "10": ("ER303", "OptimizedModule"), "12": ("ER302", "module.1"), "13": ("ER113", "forward (replaced"),
    "14": ("ER201", "mean, std"), "15": ("ER210", ":13"), "18": ("ER112", "calls"), "19": ("ER112", "level"),
    "21": ("ER401", ":13"), "22": ("ER403", "x.shape[0]"), "27": ("ER123", "layers[0]"), "28": ("ER123", "is w"),
    "32": ("ER402", "batch (class Batch)"), "37": ("ER318", "0.weight"), "40": ("ER112", "fq."),
    "43": ("ER315", "head.weight"), "45": ("ER111", ":13"), "48": ("ER121", ":14"), "56": ("ER190", "rank 1"),
    "58": ("ER430", ":14"), "63": ("ER303", "DataParallel"), "69": ("ER201", "2.bias"), "71": ("ER404", ":15"),
}  # fmt: skip


def truth_of(path: Path) -> dict[str, str]:
    """Return TRUTH, read without running the file."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "TRUTH":
            return dict(ast.literal_eval(node.value))
    raise AssertionError(f"no TRUTH in {path}")


def parameter(path: Path) -> Any:
    reason = NOT_COVERED.get(truth_of(path)["kind"])
    marks = [pytest.mark.xfail(strict=True, reason=reason)] if reason else []
    return pytest.param(path, id=path.stem, marks=marks)


@pytest.fixture(scope="module")
def judged() -> dict[str, dict[str, Any]]:
    return {result["case"]: result for result in judge_all(sorted(CASES.glob("case_*.py")))}


@pytest.mark.parametrize("path", [parameter(path) for path in sorted(CASES.glob("case_*.py"))])
def test_verdict_is_true(path: Path, judged: dict[str, dict[str, Any]]) -> None:
    truth, result = truth_of(path), judged[path.stem]
    findings = "\n".join(f"{f['where']}: [{f['code']} {f['name']}] {f['message']}" for f in result["findings"])
    assert result["verdict"] == truth["verdict"], f"{truth['why']}\n{findings}"
    for finding in result["findings"]:
        assert finding["severity"] == "note" or finding["fix"], f"no fix: {finding}"


FAULTS = [path for path in sorted(CASES.glob("case_*.py")) if truth_of(path)["verdict"] == "not_ready"]


@pytest.mark.parametrize("path", FAULTS, ids=lambda path: path.stem)
def test_the_finding_names_the_fault_and_its_place(path: Path, judged: dict[str, dict[str, Any]]) -> None:
    code, place = EXPECTED[path.stem.split("_")[1]]
    found = [f for f in judged[path.stem]["findings"] if f["code"] == code and f["severity"] == "error"]
    assert any(place in f"{f['where']} {f['message']}" for f in found), judged[path.stem]["findings"]


def test_kinds_not_covered_are_among_the_cases() -> None:
    """Every kind that is not covered has a case; covered kinds fail as strict expected failures."""
    kinds = {truth_of(path)["kind"] for path in CASES.glob("case_*.py")}
    assert set(NOT_COVERED) <= kinds
