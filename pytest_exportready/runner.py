"""One case in one scenario, from training to verdict; the same code in-process, in a fixture and in a
rank."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from pytest_exportready.case import ALWAYS, CaseOptions, ExportCase, as_case, case_options
from pytest_exportready.check import Subject, all_checks, nothing
from pytest_exportready.finding import Finding, Rule
from pytest_exportready.readiness import Outcome, Readiness, StageResult
from pytest_exportready.scenario import CannotTrain, all_scenarios
from pytest_exportready.stage import SkipStage, Stage, StageInfrastructure, Trial, all_stages
from pytest_exportready.text import exception_text

if TYPE_CHECKING:
    from torch import nn
    from torch.export import ExportedProgram

UNTRAINED = Rule(
    "ER103",
    "case_trains",
    "The scenario could not train the case. By default the case is then judged as it was returned, and this is a "
    "warning; a scenario asked for by name has to train it.",
)
TO_COME = 10.0  # seconds within which all ranks begin to compare themselves
Watch = Callable[[str], None]
Exported = Callable[[Trial], Iterable[Finding]]


def stage_names() -> list[str]:
    """Every stage that a case goes through, in order."""
    return [*ALWAYS, *all_stages()]


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
) -> Readiness:
    """The verdict on ``case``, trained under ``scenario``; leaves the case's model as it was.

    required: a scenario that cannot train the case fails it; otherwise the case is judged as it is, with a
    warning.
    lead: False in the ranks, where a case is judged in several, that leave to rank 0 what one of them can prove.
    together: seconds within which all ranks come to be compared, where torch.distributed has several; 0: no comparison.
    watch: called with the name of each stage as it begins.
    exported: called after each export with its trial, which has the program or the error; what it finds is told.
    """
    from pytest_exportready.module.preserve import preserved
    from pytest_exportready.proof.global_state import global_state_kept
    from pytest_exportready.proof.truth import Truth
    from pytest_exportready.stages._source_lines import lines_told

    started = time.perf_counter()
    run = _Run(case, options, watch, lead, exported)
    with preserved(case.model), global_state_kept():
        facts: dict[str, Any] = {}
        run.stage("train", lambda: run.train(scenario, required, facts), facts=facts)
        run.stage("inspect", run.inspect)
        if together and run.several_ranks():
            compared: dict[str, Any] = {}
            run.stage("ranks", lambda: run.ranks(together, compared), facts=compared)
        for mode in options.modes:
            trial = Trial(case, options, mode, Truth(case.model))
            for stage_name, stage in all_stages().items():
                if stage.asked(case) and (stage.every_mode or mode == options.modes[0]):
                    run.proof(stage_name, stage, trial)
            if mode == options.modes[0]:
                run.findings += [finding.at("export") for finding in lines_told(trial)]
            run.prepared = run.prepared or trial.prepared
    return Readiness(
        case=name,
        scenario=scenario,
        stages=tuple(run.stages),
        findings=tuple(sorted(run.findings, key=lambda f: ("error", "warning", "info").index(f.severity))),
        checked=tuple(run.checked),
        prepared=tuple(run.prepared),
        seconds=round(time.perf_counter() - started, 3),
    )


class _Blocked(SkipStage):
    """A stage before this one did not pass."""


class _Run:
    """What has been found so far about one case."""

    def __init__(self, case: ExportCase, options: CaseOptions, watch: Watch, lead: bool, exported: Exported) -> None:
        self.case, self.options, self.watch, self.lead, self.exported = case, options, watch, lead, exported
        self.wanted = _with_needed(options.stages)
        self.stages: list[StageResult] = []
        self.blocked: set[tuple[str, str]] = set()  # stages, with their mode, that nothing may build on
        self.findings: list[Finding] = []
        self.checked: list[tuple[str, str]] = []
        self.broken: set[str] = set()  # checks with an error, or that one with an error left without sense
        self.prepared: list[str] = []

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

    def several_ranks(self) -> bool:
        from pytest_exportready.ranks.agreement import several_ranks

        return several_ranks()

    def ranks(self, seconds: float, facts: dict[str, Any]) -> Iterable[Finding]:
        from pytest_exportready.proof.tolerance import Tolerance
        from pytest_exportready.ranks.agreement import NotTogether, disagreements

        self.watch("ranks")
        try:
            yield from disagreements(self.case, Tolerance(self.options.rtol, self.options.atol), facts, seconds)
        except NotTogether as reason:
            raise SkipStage(str(reason)) from reason

    def proof(self, name: str, stage: Stage, trial: Trial) -> None:
        mode = trial.mode if stage.every_mode else ""
        trial.facts = {}
        self.stage(name, lambda: self._prove(name, stage, trial), mode, trial.facts)

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


def known_codes() -> set[str]:
    """Every code that a finding can have."""
    from pytest_exportready.diagnose import UNCLASSIFIED, all_diagnoses
    from pytest_exportready.ranks.rules import RULES
    from pytest_exportready.stages._source_lines import RULE as SOURCE

    rules = [SOURCE, *RULES, *(check.rule for check in all_checks().values())]
    rules += [rule for stage in all_stages().values() for rule in stage.rules]
    rules += [UNTRAINED, UNCLASSIFIED, *(d.rule for d in all_diagnoses().values())]
    return {rule.code for rule in rules}


def export_ready_check(
    model: nn.Module,
    example_inputs: tuple[Any, ...],
    *,
    example_kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    dynamic_batch: bool = False,
    strict: bool | str = False,
    skip_ddp_validation: bool = False,
    tolerance: Mapping[str, float] | None = None,
    stages: Sequence[str] | None = None,
    **knowledge: Any,
) -> Readiness:
    """Is ``model``, as it came out of training, ready for torch.export? Nothing is trained; the model is
    left as it was.

    example_inputs, example_kwargs: inputs of ``model.forward``. dynamic_shapes: torch.export's own form.
    strict: False (non-strict export), True, or ``"both"``. skip_ddp_validation: do not look for wrappers and
    hooks of distributed training, nor compare the ranks; the proofs are made on the module under the wrapper all the
    same.
    knowledge: the other fields of ExportCase by name (``more_inputs``, ``checkpoint``, ``golden``, ...).

    Raises CaseError for arguments that cannot be understood. Returns a Readiness; print it for the overview.
    """
    case = as_case(ExportCase(model, example_inputs, example_kwargs or {}, **knowledge))
    arguments = {"dynamic_shapes": dynamic_shapes, "dynamic_batch": dynamic_batch, "strict": strict,
                 "tolerance": tolerance, "stages": stages}  # fmt: skip
    options = case_options(arguments, scenarios=(), stages=all_stages(), codes=())
    if skip_ddp_validation:
        options = replace(options, ignore=("ER303",), reason="skip_ddp_validation=True")
    return judge(case, options, name=type(model).__name__, together=0.0 if skip_ddp_validation else TO_COME)
