"""Public bug reports, rebuilt as small cases: every verdict that a check or stage of today can give is right."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from judge import judge_all

CASES = Path(__file__).parent / "cases"
NOT_COVERED: dict[str, str] = {}  # kinds that no check or stage finds yet, and why


def truth_of(path: Path) -> dict[str, str]:
    """TRUTH, read without running the file."""
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
    told = "\n".join(f"{f['where']}: [{f['code']} {f['name']}] {f['message']}" for f in result["findings"])
    assert result["verdict"] == truth["verdict"], f"{truth['why']}\n{told}"
    for finding in result["findings"]:
        assert finding["severity"] == "info" or finding["fix"], f"no fix: {finding}"


def test_kinds_not_covered_are_among_the_cases() -> None:
    """The list above is honest: it names no kind that has gone or is covered (those are strict expected failures)."""
    kinds = {truth_of(path)["kind"] for path in CASES.glob("case_*.py")}
    assert set(NOT_COVERED) <= kinds
