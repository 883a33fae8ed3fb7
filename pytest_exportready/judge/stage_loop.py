"""What has been found so far about one case, stage by stage: nothing that a stage or check raises takes the rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_exportready.case.export_case import ExportCase
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.options import CaseOptions
from pytest_exportready.case.readiness import Outcome, StageResult
from pytest_exportready.case.sanitize import exception_text
from pytest_exportready.case.scenario import CannotTrain, all_scenarios
from pytest_exportready.checks._check import Subject, all_checks, nothing
from pytest_exportready.stages._budget import over_budget
from pytest_exportready.stages._stage import (
    Lacking,
    Memory,
    SkipStage,
    Stage,
    StageInfrastructure,
    Trial,
    Unremembered,
    all_stages,
)

if TYPE_CHECKING:
    from torch.export import ExportedProgram

UNTRAINED = Rule(
    "ER103",
    "case_trains",
    "The scenario could not train the case. By default the case is then judged as it was returned, and this is a "
    "warning; a scenario asked for by name has to train it.",
)
UNREMEMBERED = Rule(
    "ER105",
    "case_can_be_cached",
    "With --export-ready-cache a case is proved anew in each run when something in it cannot be told from another of "
    "its kind: an input, or an attribute of a module, of a class that pickle knows nothing of. It is no fault.",
)
Watch = Callable[[str], None]
Exported = Callable[[Trial], Iterable[Finding]]


class _Blocked(SkipStage):
    """A stage before this one did not pass."""


class CaseRun:
    """What has been found so far about one case."""

    def __init__(
        self,
        case: ExportCase,
        options: CaseOptions,
        watch: Watch,
        lead: bool,
        exported: Exported,
        memory: Memory | None,
    ) -> None:
        self.case, self.options, self.watch, self.lead, self.exported = case, options, watch, lead, exported
        self.memory = memory
        self.wanted = _with_needed(options.stages)
        self.stages: list[StageResult] = []
        self.blocked: set[tuple[str, str]] = set()  # stages, with their mode, that nothing may build on
        self.lacking: set[tuple[str, str]] = set()  # those that another run may find what they need for
        self.findings: list[Finding] = []
        self.checked: list[tuple[str, str]] = []
        self.broken: set[str] = set()  # checks with an error, or that one with an error left without sense
        self.prepared: list[str] = []
        self.reproducer = ""

    def stage(
        self,
        name: str,
        work: Callable[[], Iterable[Finding]],
        mode: str = "",
        facts: dict[str, Any] | None = None,
    ) -> None:
        started = time.perf_counter()
        outcome: Outcome = "passed"
        reason = ""
        found: list[Finding] = []
        try:
            for finding in work():
                found.append(self._judged(finding.at(name)))
        except SkipStage as skip:
            outcome, reason = "skipped", str(skip)
            if isinstance(skip, _Blocked):
                self.blocked.add((name, mode))
            if isinstance(skip, Lacking):
                self.lacking.add((name, mode))
        except StageInfrastructure as fault:
            outcome, reason = "infra", str(fault)
        except Exception as error:
            outcome, reason = "infra", f"the stage itself failed: {exception_text(error)}"
        if any(finding.blocks for finding in found):
            outcome = "failed"
        if outcome in ("failed", "infra"):
            self.blocked.add((name, mode))
        self.findings += found
        seconds = round(time.perf_counter() - started, 4)
        self.stages.append(StageResult(name, outcome, seconds, mode, reason, dict(facts or {})))

    def train(self, scenario: str, required: bool, facts: dict[str, Any]) -> Iterable[Finding]:
        from torch import distributed

        self.watch("train")
        if scenario not in all_scenarios():
            raise StageInfrastructure(f"scenario {scenario} is not installed")
        ranks = all_scenarios()[scenario].ranks
        if ranks > 1 and not (distributed.is_available() and distributed.is_initialized()):
            fix = "do not switch the plugin exportready-world off"
            raise StageInfrastructure(f"scenario {scenario} needs {ranks} ranks, and there is one. Fix: {fix}")
        try:
            facts |= all_scenarios()[scenario].train(self.case)
        except CannotTrain as error:
            if error.follows:
                raise StageInfrastructure(str(error)) from error
            tell = UNTRAINED.error if required else UNTRAINED.warning
            why, _, fix = str(error).partition(" Fix: ")
            yield tell("", f"scenario {scenario} could not train the case: {why}", fix)

    def inspect(self) -> Iterable[Finding]:
        self.watch("inspect")
        subject, broken = self.subject(), self.broken
        crashed: list[str] = []
        for name, check in _by_need():
            if broken.intersection(check.requires):
                broken.add(name)
                continue
            if check.inspect is nothing:
                continue
            try:
                found = list(check.inspect(subject))
            except Exception as error:
                crashed.append(f"the check {name} itself failed: {exception_text(error)}")
                broken.add(name)
                continue
            self.checked.append((check.rule.code, name))
            if any(finding.severity == "error" for finding in found):
                broken.add(name)
            yield from found
        if crashed:
            raise StageInfrastructure("; ".join(crashed))

    def inspect_program(self, program: ExportedProgram) -> Iterable[Finding]:
        for check in all_checks().values():
            if check.inspect_program is not None and not self.broken.intersection(check.requires):
                told = (check.rule.code, check.rule.name)
                self.checked += [told] if told not in self.checked else []
                yield from check.inspect_program(program, self.subject())

    def subject(self) -> Subject:
        stated = {f.name: getattr(self.case, f.name) for f in fields(Subject) if f.name != "strict"}
        return Subject(**stated, strict="strict" in self.options.modes)

    def ranks(self, seconds: float, facts: dict[str, Any]) -> Iterable[Finding]:
        from pytest_exportready.analysis.execution.compare import Tolerance
        from pytest_exportready.analysis.ranks.check_ranks import NotTogether, disagreements

        self.watch("ranks")
        try:
            yield from disagreements(self.case, Tolerance(self.options.rtol, self.options.atol), facts, seconds)
        except NotTogether as reason:
            raise SkipStage(str(reason)) from reason

    def budget(self, mode: str, spent: dict[str, Any]) -> Iterable[Finding]:
        self.watch("budget")
        if not self.lead:
            raise SkipStage("proved by rank 0")
        yield from over_budget(self.options.budget, [s for s in self.stages if s.mode == mode], spent)
        unknown = [kind for kind in self.options.budget if kind not in spent]
        if unknown:
            raise SkipStage(f"not measured: {', '.join(unknown)}")

    def proofs(self, stages: Mapping[str, Stage], trial: Trial) -> None:
        for name, stage in stages.items():
            mode = trial.mode if stage.every_mode else ""
            trial.facts = {}
            self.stage(name, partial(self._prove, name, stage, trial), mode, trial.facts)

    def remembered(self, stages: Mapping[str, Stage], trial: Trial) -> None:
        """``proofs`` of stages that come after others, unless their results are known from an earlier run."""
        if self.memory is None or trial.program is None or self.blocked:
            self.proofs(stages, trial)
            return
        self.watch("cache")
        try:
            known = self.memory.recall(trial)
        except Unremembered as reason:
            self.tell(UNREMEMBERED.info("", f"no verdict on this case is cached: {reason}"))
            self.proofs(stages, trial)
        else:
            if known.keys() == stages.keys():
                for result, findings in known.values():
                    self.stages.append(result)
                    self.findings += map(self._judged, findings)
            else:
                self.proofs_kept(stages, trial, self.memory)
        for problem in self.memory.problems():
            self.tell(UNREMEMBERED.warning("", f"the cache: {problem}", "remove the folder if this goes on"))

    def proofs_kept(self, stages: Mapping[str, Stage], trial: Trial, memory: Memory) -> None:
        had, found = len(self.stages), len(self.findings)
        self.proofs(stages, trial)
        new, told = self.stages[had:], self.findings[found:]
        lasting = (
            s.outcome == "passed" or (s.outcome == "skipped" and (s.name, s.mode) not in self.lacking) for s in new
        )
        if all(lasting):
            of = {result.name: tuple(f for f in told if f.stage == result.name) for result in new}
            memory.keep(trial, {result.name: (result, of[result.name]) for result in new})

    def tell(self, finding: Finding) -> None:
        self.findings.append(self._judged(finding.at("export")))

    def _prove(self, name: str, stage: Stage, trial: Trial) -> Iterable[Finding]:
        if self.wanted and name not in self.wanted:
            raise SkipStage("not among the stages that the marker asks for")
        if not (self.lead or stage.every_rank):
            raise SkipStage("proved by rank 0")
        for before in stage.after:
            if self.blocked.intersection([(before, ""), (before, trial.mode)]):
                raise _Blocked(f"{before} did not pass")
        if stage.after and trial.program is None:
            raise SkipStage("there is no exported program")
        self.watch(name)
        had = trial.program
        yield from stage.run(trial)
        if name == "export":
            yield from self.exported(trial)
        if trial.program is not None and had is None:
            yield from self.inspect_program(trial.program)

    def _judged(self, finding: Finding) -> Finding:
        return finding.ignored_because(self.options.reason) if finding.code in self.options.ignore else finding


def _by_need() -> list[tuple[str, Any]]:
    """Checks, each behind those it requires."""
    waiting, ordered = dict(all_checks()), dict[str, Any]()
    while waiting:
        name = next(n for n, c in waiting.items() if not set(c.requires) & set(waiting))
        ordered[name] = waiting.pop(name)
    return list(ordered.items())


def _with_needed(names: Sequence[str]) -> set[str]:
    """The stages asked for and those that must have passed before them."""
    wanted = set(names)
    for name, stage in reversed(list(all_stages().items())):
        if name in wanted:
            wanted.update(stage.after)
    return wanted
