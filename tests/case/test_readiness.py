"""readiness: the verdict follows from stages and findings, and survives JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.readiness import Readiness, StageResult

RULE = Rule("ER302", "batchnorm_frozen")
ERROR = RULE.error("bn1", "left in training", "model.eval()").at("inspect")


def readiness(*outcomes: str, findings: tuple[Finding, ...] = ()) -> Readiness:
    stages = tuple(StageResult(f"s{n}", outcome) for n, outcome in enumerate(outcomes))  # type: ignore[arg-type]
    return Readiness("case", "plain", stages, findings, checked=(("ER302", "batchnorm_frozen"), ("ER1", "other")))


@pytest.mark.parametrize(
    ("outcomes", "findings", "verdict", "failed"),
    [
        (["passed", "passed"], (), "passed", ""),
        (["passed", "skipped"], (), "passed", ""),
        (["passed", "failed", "skipped"], (), "failed", "s1"),
        (["passed", "infra"], (), "infra", "s1"),
        (["infra", "failed"], (), "failed", "s0"),
        (["passed"], (ERROR,), "failed", ""),
        (["passed"], (ERROR.ignored_because("known"),), "passed", ""),
        (["passed"], (RULE.warning("", "m", "f"),), "passed", ""),
    ],
)
def test_verdict(outcomes: list[str], findings: tuple[Finding, ...], verdict: str, failed: str) -> None:
    """A fault of the model counts more than one of the runner; neither is green."""
    found = readiness(*outcomes, findings=findings)
    assert (found.outcome, found.ready) == (verdict, verdict == "passed")
    if failed:
        assert found.failed_stage == failed


def test_round_trip() -> None:
    """Through JSON and back, equal."""
    found = readiness("passed", "failed", findings=(ERROR,))
    assert Readiness.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_overview() -> None:
    """A row for each check and stage, whether it passed, and its first problem."""
    shown = str(readiness("passed", "failed", findings=(ERROR,)))
    assert "NOT READY" in shown.splitlines()[0]
    rows = {line.split()[0]: line for line in shown.splitlines()[1:]}
    assert "no " in rows["batchnorm_frozen"]
    assert "bn1: [ER302 batchnorm_frozen] left in training. Fix: model.eval()" in rows["batchnorm_frozen"]
    assert rows["other"].split()[1] == "yes"
    assert rows["s1"].split()[1] == "no"
    assert str(readiness("passed")).splitlines()[0] == "case [plain]: ready"


CRASHED = StageResult("inspect", "infra", reason="the check batchnorm_frozen crashed")


@pytest.mark.parametrize(
    ("stages", "findings", "verdict"),
    [
        ([StageResult("inspect", "passed")], (), "ready"),
        ([StageResult("inspect", "failed")], (ERROR,), "NOT READY (failed at inspect)"),
        ([CRASHED], (), "INCONCLUSIVE (infrastructure error at inspect)"),
        ([CRASHED], (ERROR,), "NOT READY (failed at inspect)"),
        ([CRASHED, StageResult("export", "failed")], (), "NOT READY (failed at export)"),
        ([StageResult("inspect", "failed"), StageResult("reload", "infra", reason="disk full")], (ERROR,),
         "NOT READY (failed at inspect)"),
    ],
)  # fmt: skip
def test_the_first_line_is_the_verdict_and_every_reason_is_shown(
    stages: list[StageResult], findings: tuple[Finding, ...], verdict: str
) -> None:
    """An infrastructure error is inconclusive, and every stage that did not pass has a reason."""
    found = Readiness("case", "plain", tuple(stages), findings)
    first, *rows = str(found).splitlines()
    assert first == f"case [plain]: {verdict}"
    for stage in stages:
        (row,) = (row for row in rows if row.startswith(stage.name))
        assert stage.reason in row


def test_files_below_the_root_are_named_from_there(tmp_path: Path) -> None:
    """A report is read on another machine: paths of this one help only where nothing shorter is known."""
    rule = Rule("ER401", "no_data_dependent_branch")
    files = [str(tmp_path / "src" / "net.py"), "/elsewhere/net.py", ""]
    found = tuple(rule.error("", "branches", "use torch.where", file=file, line=3) for file in files)
    seen = Readiness("case", "plain", (), found).relative_to(tmp_path)
    assert [finding.file for finding in seen.findings] == ["src/net.py", "/elsewhere/net.py", ""]
