"""The worst verdict of all ranks decides; a finding of some ranks names them."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from pytest_exportready.case.finding import Finding
from pytest_exportready.case.readiness import Outcome, Readiness, StageResult
from pytest_exportready.session.merge_ranks import worst_of


def found(message: str, stage: str = "inspect", rank: int | None = None) -> Finding:
    return Finding("ER302", "batchnorm_frozen", "error", "bn", message, "fix it", stage=stage, rank=rank)


def verdict(*findings: Finding, seconds: float = 1.0, **outcomes: Outcome) -> Readiness:
    stages = tuple(StageResult(name, outcome, reason=outcome) for name, outcome in outcomes.items())
    return Readiness("case", "ddp", stages, findings, seconds=seconds)


def outcomes(readiness: Readiness) -> dict[str, str]:
    return {stage.name: stage.outcome for stage in readiness.stages}


def test_ranks_that_agree_give_their_verdict() -> None:
    one = verdict(found("bad"), train="passed", inspect="failed")
    assert worst_of([one, one]) == one


def test_the_worst_outcome_of_a_stage_counts() -> None:
    passed = verdict(train="passed", inspect="passed", export="passed", seconds=1.0)
    failed = verdict(train="infra", inspect="failed", export="passed", seconds=3.0)
    for order in ([passed, failed], [failed, passed]):
        merged = worst_of(order)
        assert outcomes(merged) == {"train": "infra", "inspect": "failed", "export": "passed"}
        assert merged.seconds == 3.0
        assert not merged.ready


def test_a_stage_that_one_rank_runs_for_all_is_not_skipped() -> None:
    lead = verdict(found("differs", "parity"), train="passed", parity="failed")
    other = verdict(train="passed", parity="skipped")
    merged = worst_of([lead, other])
    assert outcomes(merged)["parity"] == "failed"
    assert [f.rank for f in merged.findings] == [None]  # of the only rank that looked


def test_a_finding_of_one_rank_names_it_and_one_of_all_names_none() -> None:
    both, alone = found("both"), found("alone")
    merged = worst_of([verdict(both, inspect="failed"), verdict(both, alone, inspect="failed")])
    assert [(f.message, f.rank) for f in merged.findings] == [("both", None), ("alone", 1)]


def test_a_finding_that_names_its_rank_is_reported_once() -> None:
    named = found("rank 1 differs", rank=1)
    assert worst_of([verdict(named, inspect="failed")] * 2).findings == (named,)


def test_errors_come_first() -> None:
    warning = replace(found("odd"), severity="warning")
    merged = worst_of([verdict(warning, inspect="passed"), verdict(found("bad"), inspect="failed")])
    assert [f.severity for f in merged.findings] == ["error", "warning"]


def test_only_ranks_without_a_case_count_if_there_are_any() -> None:
    built = verdict(found("as a consequence", "train"), train="infra", inspect="passed")
    raised = verdict(found("raised", "case"), case="failed")
    merged = worst_of([built, raised])
    assert outcomes(merged) == {"case": "failed"}
    assert [(f.message, f.rank) for f in merged.findings] == [("raised", 1)]


PASSED = StageResult("export", "passed")
FAILED = StageResult("export", "failed")
FIELDS = {  # of the ranks 0 and 1, and of the case
    "case": ("case", "case", "case"),
    "scenario": ("ddp", "ddp", "ddp"),
    "stages": ((PASSED,), (FAILED,), (FAILED,)),
    "findings": ((), (found("bad", "export"),), (found("bad", "export", rank=1),)),
    "checked": ((("ER1", "one"),), (("ER2", "two"),), (("ER1", "one"), ("ER2", "two"))),
    "prepared": (("moved",), ("unwrapped",), ("moved", "unwrapped")),
    "seconds": (1.0, 2.0, 2.0),
    "reproducer": ("", "import torch", "import torch"),
    "no_reproducer": ("too long", "", ""),
    "peak_mib": (3.0, 2.0, 3.0),
    "peak_gpu_mib": (4.0, 5.0, 5.0),
    "peak_gpu_reserved_mib": (7.0, 6.0, 7.0),
    "device": ("cuda", "cuda", "cuda"),
}


def test_every_field_is_merged() -> None:
    """A field that is added to the record has to be decided on here, and in the merge."""
    assert list(FIELDS) == [field.name for field in fields(Readiness)]
    records: list[Any] = [Readiness(*values) for values in zip(*FIELDS.values(), strict=True)]
    first, second, expected = records
    assert worst_of([first, second]) == expected


def test_a_reproducer_counts_more_than_the_reason_for_a_missing_one() -> None:
    without = replace(verdict(), no_reproducer="too long")
    ranks = [
        verdict(),
        without,
        replace(verdict(), reproducer="import torch"),
        replace(verdict(), reproducer="import os"),
    ]
    assert (worst_of(ranks).reproducer, worst_of(ranks).no_reproducer) == ("import torch", "")
    assert (worst_of(ranks[:2]).reproducer, worst_of(ranks[:2]).no_reproducer) == ("", "too long")


def test_different_fixes_for_one_problem_are_one_finding() -> None:
    """The fix with a patch is shown, whichever rank proved it."""
    advice = found("branches", "export")
    proved = replace(advice, fix="apply the patch", patch="--- a\n+++ a")
    for order in ([advice, proved], [proved, advice]):
        assert worst_of([verdict(one, export="failed") for one in order]).findings == (proved,)
