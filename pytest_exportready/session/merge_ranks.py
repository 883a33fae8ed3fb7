"""Merge the verdicts of all ranks on one case: the worst decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_exportready.case.finding import Finding
from pytest_exportready.case.readiness import WORST_FIRST, Readiness, StageResult

_SEVEREST_FIRST = ("error", "warning", "note")


def worst_of(verdicts: Sequence[Readiness]) -> Readiness:
    """Merge one readiness per rank, in the order of ranks.

    If some ranks could not build the case, only they count. Of each stage the worst outcome counts, and skipped is the
    best. A finding names its rank unless every rank that ran its stage has it. A fix with a patch is preferred.
    """
    unbuilt = [one for one in verdicts if any(stage.name == "case" for stage in one.stages)]
    decisive = unbuilt or verdicts
    stages: dict[tuple[str, str], StageResult] = {}
    for one in decisive:
        for stage in one.stages:
            known = stages.setdefault((stage.name, stage.mode), stage)
            stages[stage.name, stage.mode] = min(known, stage, key=lambda one: WORST_FIRST.index(one.outcome))
    reproducer = next((one.reproducer for one in decisive if one.reproducer), "")
    return Readiness(  # every field: one that is added later has to be merged, too
        case=verdicts[0].case,
        scenario=verdicts[0].scenario,
        stages=tuple(stages.values()),
        findings=tuple(sorted(_findings(verdicts, bool(unbuilt)), key=lambda f: _SEVEREST_FIRST.index(f.severity))),
        checked=tuple(dict.fromkeys(check for one in verdicts for check in one.checked)),
        prepared=tuple(dict.fromkeys(line for one in verdicts for line in one.prepared)),
        seconds=max(one.seconds for one in verdicts),
        reproducer=reproducer,
        no_reproducer="" if reproducer else next((one.no_reproducer for one in decisive if one.no_reproducer), ""),
        peak_mib=max(one.peak_mib for one in verdicts),
        peak_gpu_mib=max(one.peak_gpu_mib for one in verdicts),
        peak_gpu_reserved_mib=max(one.peak_gpu_reserved_mib for one in verdicts),
        device=verdicts[0].device,
    )


def _findings(verdicts: Sequence[Readiness], unbuilt: bool) -> list[Finding]:
    ranks: dict[Finding, dict[int, Finding]] = {}
    for rank, one in enumerate(verdicts):
        for finding in (f for f in one.findings if not unbuilt or f.stage == "case"):
            ranks.setdefault(replace(finding, fix="", patch=""), {}).setdefault(rank, finding)
    found: list[Finding] = []
    for several in ranks.values():
        finding = next((one for one in several.values() if one.patch), next(iter(several.values())))
        ran = [rank for rank, one in enumerate(verdicts) if not _left_out(one, finding.stage)]
        if finding.rank is not None or list(several) == ran:
            found.append(finding)
        else:
            found += [replace(finding, rank=rank) for rank in several]
    return found


def _left_out(readiness: Readiness, stage: str) -> bool:
    """Return whether this rank skipped the stage because another rank runs it."""
    outcomes = [one.outcome for one in readiness.stages if one.name == stage]
    return bool(outcomes) and set(outcomes) == {"skipped"}
