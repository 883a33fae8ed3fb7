"""One verdict on a case from those of all ranks it was judged in: the worst decides, and is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_exportready.case.finding import Finding
from pytest_exportready.case.readiness import WORST_FIRST, Readiness, StageResult

_SEVEREST_FIRST = ("error", "warning", "note")


def worst_of(told: Sequence[Readiness]) -> Readiness:
    """``told``: one readiness a rank, by rank.

    Where some ranks have no case to judge, that is all there is to tell. Of a stage the worst outcome counts; one that
    some ranks leave to others is theirs to tell. A finding of every rank that ran its stage stands for all; one of
    some ranks only names them; the fix is one with a patch, where a rank has proved one.
    """
    unbuilt = [one for one in told if any(stage.name == "case" for stage in one.stages)]
    decisive = unbuilt or told
    stages: dict[tuple[str, str], StageResult] = {}
    for one in decisive:
        for stage in one.stages:
            known = stages.setdefault((stage.name, stage.mode), stage)
            stages[stage.name, stage.mode] = min(known, stage, key=lambda one: WORST_FIRST.index(one.outcome))
    reproducer = next((one.reproducer for one in decisive if one.reproducer), "")
    return Readiness(  # every field: one that is added later has to be merged, too
        case=told[0].case,
        scenario=told[0].scenario,
        stages=tuple(stages.values()),
        findings=tuple(sorted(_findings(told, bool(unbuilt)), key=lambda f: _SEVEREST_FIRST.index(f.severity))),
        checked=tuple(dict.fromkeys(check for one in told for check in one.checked)),
        prepared=tuple(dict.fromkeys(line for one in told for line in one.prepared)),
        seconds=max(one.seconds for one in told),
        reproducer=reproducer,
        no_reproducer="" if reproducer else next((one.no_reproducer for one in decisive if one.no_reproducer), ""),
        peak_mib=max(one.peak_mib for one in told),
        peak_gpu_mib=max(one.peak_gpu_mib for one in told),
    )


def _findings(told: Sequence[Readiness], unbuilt: bool) -> list[Finding]:
    ranks: dict[Finding, dict[int, Finding]] = {}
    for rank, one in enumerate(told):
        for finding in (f for f in one.findings if not unbuilt or f.stage == "case"):
            ranks.setdefault(replace(finding, fix="", patch=""), {}).setdefault(rank, finding)
    found: list[Finding] = []
    for several in ranks.values():
        finding = next((one for one in several.values() if one.patch), next(iter(several.values())))
        ran = [rank for rank, one in enumerate(told) if not _left_out(one, finding.stage)]
        if finding.rank is not None or list(several) == ran:
            found.append(finding)
        else:
            found += [replace(finding, rank=rank) for rank in several]
    return found


def _left_out(readiness: Readiness, stage: str) -> bool:
    """Whether this rank left the stage to another."""
    outcomes = [one.outcome for one in readiness.stages if one.name == stage]
    return bool(outcomes) and set(outcomes) == {"skipped"}
