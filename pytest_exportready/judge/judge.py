"""Judge one case in one scenario, from training to verdict; the same in a process, a fixture and a rank."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from pytest_exportready.analysis.execution.global_state import global_state_kept
from pytest_exportready.analysis.execution.trial import Exported, ResultCache, Trial
from pytest_exportready.analysis.module.snapshot import preserved
from pytest_exportready.analysis.torch_internals.numerics import full_precision
from pytest_exportready.case.export_case import ExportCase
from pytest_exportready.case.finding import Finding
from pytest_exportready.case.options import CaseOptions
from pytest_exportready.case.readiness import Readiness
from pytest_exportready.judge.cached_stages import CachedStages
from pytest_exportready.judge.peak_memory import PeakMemory
from pytest_exportready.judge.stage_loop import StageLoop, Stages, Watch
from pytest_exportready.stages import all_stages

RANK_TIMEOUT = 10.0  # seconds within which all ranks must begin the comparison
OnExport = Callable[[Trial], Iterable[Finding]]


def judge(
    case: ExportCase,
    options: CaseOptions,
    *,
    name: str,
    scenario: str = "as_is",
    required: bool = True,
    lead: bool = True,
    rank_timeout: float = RANK_TIMEOUT,
    watch: Watch = lambda stage: None,
    on_export: OnExport = lambda trial: (),
    cache: ResultCache | None = None,
    stages: Stages | None = None,
) -> Readiness:
    """Return the verdict on ``case``, trained under ``scenario``. The case's model is left as it was.

    Args:
        required: Whether a scenario that cannot train the case fails it. If not, the case is judged untrained, with a
            warning.
        lead: False in ranks that skip what rank 0 proves for all.
        rank_timeout: Seconds within which all ranks must begin the comparison; 0 for no comparison.
        watch: Called with the name of each stage as it begins.
        on_export: Called after each export with the trial, which has the program or the error; yields findings.
        cache: Results of earlier runs.
        stages: The stages to run, by name; all by default.
    """
    started = time.perf_counter()
    memory = PeakMemory()
    loop = CachedStages(watch, lead, cache=cache) if cache is not None and lead else StageLoop(watch, lead)
    trial = Trial(case, options, options.modes[0], scenario, required, rank_timeout, on_export, cache if lead else None)
    exports: list[Exported] = []
    with preserved(case.model), global_state_kept(), full_precision():
        for mode in options.modes:
            trial = replace(trial, mode=mode, exported=None)
            loop.run(all_stages() if stages is None else stages, trial)
            exports += [trial.exported] if trial.exported else []
    reproducer = next((export.reproducer for export in exports if export.reproducer), "")
    return Readiness(
        case=name,
        scenario=scenario,
        stages=tuple(loop.results),
        findings=tuple(sorted(loop.findings, key=lambda f: ("error", "warning", "note").index(f.severity))),
        checked=tuple(loop.checked),
        prepared=next((export.prepared for export in exports if export.prepared), ()),
        seconds=round(time.perf_counter() - started, 3),
        reproducer=reproducer,
        no_reproducer="" if reproducer else next((e.no_reproducer for e in exports if e.no_reproducer), ""),
        peak_mib=memory.mib(),
        peak_gpu_mib=memory.gpu_mib(),
        peak_gpu_reserved_mib=memory.gpu_reserved_mib(),
    )
