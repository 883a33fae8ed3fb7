"""Run the stages of a case in order. An exception in one stage is reported and does not affect the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from pytest_exportready.analysis.execution.machine_faults import (
    MORE_GPU_MEMORY,
    MachineFault,
    free_memory,
    machine_fault,
    out_of_memory_count,
)
from pytest_exportready.analysis.execution.trial import EagerFailed, Exported, Facts, Inspected, Observation, Trial
from pytest_exportready.analysis.torch_internals.cuda import why_cuda_is_lost
from pytest_exportready.case.explained import with_fix
from pytest_exportready.case.finding import Finding
from pytest_exportready.case.readiness import Outcome, StageResult
from pytest_exportready.case.sanitize import exception_text, json_safe
from pytest_exportready.stages._stage import MissingTool, SkipStage, Stage, StageInfrastructure

Watch = Callable[[str], None]
Stages = Mapping[str, Stage]


_LOST = "Run the case on the CPU, or with CUDA_LAUNCH_BLOCKING=1, to find the operator; often an index is out of range."


class _Blocked(SkipStage):
    """A stage before this one did not pass."""


@dataclass
class StageLoop:
    """Runs the stages of one case and collects their results."""

    watch: Watch  # called with the name of each stage as it begins
    lead: bool  # False in ranks that skip what rank 0 proves for all
    results: list[StageResult] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    checked: list[tuple[str, str]] = field(default_factory=list)  # code and name of each check that ran
    missing_tools: set[tuple[str, str]] = field(default_factory=set)  # stages, with their mode, that lack a tool
    _blocked: set[tuple[str, str]] = field(default_factory=set)  # stages, with their mode, that did not pass
    _lost: bool = False  # CUDA does not work anymore

    def run(self, stages: Stages, trial: Trial) -> None:
        """Run ``stages`` in order, except those that the case does not ask for."""
        wanted = _with_needed(stages, trial.options.stages)
        asked = {name: stage for name, stage in stages.items() if self._is_asked(stage, trial)}
        for cacheable, block in groupby(asked.items(), key=lambda item: item[1].cacheable):
            run = self.run_cacheable if cacheable else self.run_block
            run(dict(block), wanted, trial)

    def run_cacheable(self, stages: Stages, wanted: set[str], trial: Trial) -> None:
        """Run stages whose results depend on the exported program alone."""
        self.run_block(stages, wanted, trial)

    def run_block(self, stages: Stages, wanted: set[str], trial: Trial) -> None:
        for name, stage in stages.items():
            self._run(name, stage, wanted, trial)

    def add(self, finding: Finding, trial: Trial) -> None:
        """Keep ``finding``, ignored if the marker says so."""
        options = trial.options
        self.findings.append(finding.ignored_because(options.reason) if finding.code in options.ignore else finding)

    @property
    def all_passed(self) -> bool:
        return not self._blocked

    def _is_asked(self, stage: Stage, trial: Trial) -> bool:
        return stage.asked(trial) and (stage.every_mode or trial.mode == trial.options.modes[0])

    def _run(self, name: str, stage: Stage, wanted: set[str], trial: Trial) -> None:
        mode = trial.mode if stage.every_mode else ""
        started, found = time.perf_counter(), len(self.findings)
        outcome: Outcome = "passed"
        reason, facts = "", Facts()
        try:
            self._require(name, stage, wanted, trial)
            self.watch(name)
            self._observe_with_memory(name, stage, facts, trial)
        except MachineFault as fault:
            del self.findings[found:]  # it may have caused them
            outcome, reason = "infra", with_fix(fault.problem, fault.fix)
        except SkipStage as skip:
            outcome, reason = "skipped", str(skip)
            if isinstance(skip, _Blocked):
                self._blocked.add((name, mode))
            if isinstance(skip, MissingTool):
                self.missing_tools.add((name, mode))
        except StageInfrastructure as fault:
            outcome, reason = "infra", str(fault)
        except Exception as error:
            outcome, reason = "infra", f"the stage raised {exception_text(error)}"
        blocks = any(finding.blocks for finding in self.findings[found:])
        if outcome != "skipped" and not self._lost and (why := why_cuda_is_lost()):
            self._lost = True
            outcome, reason = "infra", with_fix(f"CUDA stopped in this stage: {why}", _LOST)
        if blocks:
            outcome = "failed"
        if outcome in ("failed", "infra"):
            self._blocked.add((name, mode))
        seconds = round(time.perf_counter() - started, 4)
        result = trial.results[name] = StageResult(name, outcome, seconds, mode, reason, json_safe(facts))
        self.results.append(result)

    def _require(self, name: str, stage: Stage, wanted: set[str], trial: Trial) -> None:
        """Raise SkipStage if the stage cannot or need not run."""
        if self._lost:
            raise _Blocked("CUDA stopped in an earlier stage")
        if wanted and name not in wanted and not stage.always:
            raise SkipStage("not in the marker's stages")
        if not (self.lead or stage.every_rank):
            raise SkipStage("proved by rank 0")
        for before in stage.after:
            if self._blocked.intersection([(before, ""), (before, trial.mode)]):
                raise _Blocked(f"{before} did not pass")
        if stage.after and trial.program is None:
            raise SkipStage("there is no exported program")

    def _observe_with_memory(self, name: str, stage: Stage, facts: Facts, trial: Trial) -> None:
        """Run a stage, and once more with freed memory if it runs out of memory, also where it does not notice.

        Raises:
            MachineFault: The machine is at fault.
        """
        found = len(self.findings)
        for again in (True, False):
            before = out_of_memory_count()
            try:
                self._observe(name, stage.run(trial), facts, trial)
                if out_of_memory_count() == before:
                    return
                fault = MachineFault("a GPU had too little free memory", MORE_GPU_MEMORY)
            except (SkipStage, StageInfrastructure):
                raise
            except (Exception, MachineFault) as error:
                of_machine = machine_fault(error)
                if of_machine is None:
                    raise
                fault = of_machine
            if not (again and fault.memory):
                raise fault
            del self.findings[found:]
            facts.clear()
            free_memory()

    def _observe(self, name: str, observations: Iterable[Observation], facts: Facts, trial: Trial) -> None:
        for seen in observations:
            if isinstance(seen, Finding):
                self.add(seen.at(name), trial)
            elif isinstance(seen, Exported):
                trial.exported = seen
            elif isinstance(seen, EagerFailed):
                trial.eager_error = seen.error
            elif isinstance(seen, Inspected):
                self.checked += [check for check in seen.checked if check not in self.checked]
                trial.failed_checks |= seen.failed
            else:
                facts |= seen


def _with_needed(stages: Stages, names: Iterable[str]) -> set[str]:
    """Return the stages in ``names`` and those that must pass before them."""
    wanted = set(names)
    for name, stage in reversed(list(stages.items())):
        if name in wanted:
            wanted.update(stage.after)
    return wanted
