"""One case in one scenario, from training to verdict; the same code in-process, in a fixture and in a
rank."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from pytest_exportready.case.export_case import ExportCase
from pytest_exportready.case.options import ALWAYS, CaseOptions
from pytest_exportready.case.readiness import Readiness
from pytest_exportready.judge.peak_memory import PeakMemory
from pytest_exportready.judge.stage_loop import CaseRun, Exported, Watch
from pytest_exportready.stages._stage import Memory, Trial, all_stages

TO_COME = 10.0  # seconds within which all ranks begin to compare themselves


def stage_names() -> list[str]:
    """Every stage that a case goes through, in order."""
    return [*ALWAYS, *all_stages(), "budget"]


def judge(
    case: ExportCase,
    options: CaseOptions,
    *,
    name: str,
    scenario: str = "as_is",
    required: bool = True,
    lead: bool = True,
    together: float = TO_COME,
    watch: Watch = lambda stage: None,
    exported: Exported = lambda trial: (),
    memory: Memory | None = None,
) -> Readiness:
    """The verdict on ``case``, trained under ``scenario``; leaves the case's model as it was.

    required: a scenario that cannot train the case fails it; otherwise the case is judged as it is, with a
    warning.
    lead: False in the ranks, where a case is judged in several, that leave to rank 0 what one of them can prove.
    together: seconds within which all ranks come to be compared, where torch.distributed has several; 0: no comparison.
    watch: called with the name of each stage as it begins.
    exported: called after each export with its trial, which has the program or the error; what it finds is told.
    memory: what is asked for earlier results of the stages behind an export, and told of those that passed.
    """
    from pytest_exportready.analysis.execution.eager_reference import Truth
    from pytest_exportready.analysis.execution.global_state import global_state_kept
    from pytest_exportready.analysis.module.snapshot import preserved
    from pytest_exportready.analysis.ranks.check_ranks import several_ranks
    from pytest_exportready.stages._source_lines import lines_told

    started = time.perf_counter()
    memory_used = PeakMemory()
    run = CaseRun(case, options, watch, lead, exported, memory if lead else None)
    with preserved(case.model), global_state_kept():
        facts: dict[str, Any] = {}
        run.stage("train", lambda: run.train(scenario, required, facts), facts=facts)
        run.stage("inspect", run.inspect)
        if together and several_ranks():
            compared: dict[str, Any] = {}
            run.stage("ranks", lambda: run.ranks(together, compared), facts=compared)
            together = together if run.stages[-1].outcome == "passed" else 0.0
        for mode in options.modes:
            trial = Trial(case, options, mode, Truth(case.model), together, memory=run.memory)
            asked = {
                name: stage
                for name, stage in all_stages().items()
                if stage.asked(case, options) and (stage.every_mode or mode == options.modes[0])
            }
            behind = {name for name, stage in asked.items() if stage.after and not stage.every_rank}
            run.proofs({name: stage for name, stage in asked.items() if name not in behind}, trial)
            run.remembered({name: asked[name] for name in asked if name in behind}, trial)
            if options.budget:
                spent: dict[str, Any] = {}
                run.stage("budget", partial(run.budget, mode, spent), mode, spent)
            if mode == options.modes[0]:
                run.findings += [finding.at("export") for finding in lines_told(trial)]
            run.prepared = run.prepared or trial.prepared
            run.reproducer = run.reproducer or trial.reproducer
    return Readiness(
        case=name,
        scenario=scenario,
        stages=tuple(run.stages),
        findings=tuple(sorted(run.findings, key=lambda f: ("error", "warning", "info").index(f.severity))),
        checked=tuple(run.checked),
        prepared=tuple(run.prepared),
        seconds=round(time.perf_counter() - started, 3),
        reproducer=run.reproducer,
        peak_mib=memory_used.mib(),
        peak_gpu_mib=memory_used.gpu_mib(),
    )
