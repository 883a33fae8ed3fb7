"""The result of one cell in one night, as far as nights are compared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple

from pytest_exportready.case.facts import SAME_EVERY_NIGHT
from pytest_exportready.case.readiness import Outcome as StageOutcome, StageResult
from pytest_exportready.report.cause import FailureCause, causes_of
from pytest_exportready.report.run import Outcome as TestOutcome, TestResult

Outcome = TestOutcome | Literal["flaky"]

_FIRST: tuple[Outcome, ...] = ("failed", "passed", "xfailed", "infra", "skipped", "missing")


class Cell(NamedTuple):
    """A case in one configuration."""

    nodeid: str
    leg: str = ""  # of a matrix; empty where a night has no legs


@dataclass(frozen=True)
class Observation:
    """The result of a cell."""

    outcome: Outcome  # ``flaky``: passed and failed in the same night, by retries or in files of the same leg
    causes: tuple[FailureCause, ...]
    message: str
    covered: frozenset[str]  # stages with a verdict, and checks that ran
    stages: dict[str, StageOutcome]
    seconds: dict[str, tuple[float, ...]]  # by stage, one for each time that it ran
    exact: dict[str, int]  # facts that must be the same every night
    result: TestResult

    @property
    def judged(self) -> bool:
        """Whether the model has a verdict."""
        return self.outcome in ("passed", "failed", "flaky", "xfailed")

    @property
    def failing(self) -> bool:
        return self.outcome in ("failed", "xfailed")


def observed(result: TestResult) -> Observation:
    """Return the observation in ``result``."""
    record = result.readiness
    stages = record.stages if record else ()
    ran = tuple(_named(stage) for stage in stages if stage.outcome in ("passed", "failed"))
    checks = tuple(name for _, name in record.checked) if record else ()
    return Observation(
        outcome="flaky" if result.outcome == "passed" and result.earlier else result.outcome,
        causes=causes_of(result),
        message=result.message,
        covered=_shared(ran + checks),
        stages=result.stage_outcomes,
        seconds={_named(stage): (stage.seconds,) for stage in stages if stage.outcome == "passed" and not stage.cached},
        exact={
            f"{_named(stage)} {fact}": value
            for stage in stages
            for fact in SAME_EVERY_NIGHT
            if isinstance(value := stage.facts.get(fact), int)
        },
        result=result,
    )


def together(one: Observation, other: Observation) -> Observation:
    """Merge two observations of a cell in the same night: two different verdicts are flaky."""
    first, second = sorted((one, other), key=lambda each: _rank(each.outcome))
    if not second.judged:
        return first
    keys = (*first.seconds, *second.seconds)
    return replace(
        first,
        outcome=first.outcome if first.outcome == second.outcome else "flaky",
        causes=tuple(dict.fromkeys(first.causes + second.causes)),
        covered=first.covered | second.covered,
        seconds={key: first.seconds.get(key, ()) + second.seconds.get(key, ()) for key in dict.fromkeys(keys)},
    )


def _rank(outcome: Outcome) -> int:
    return _FIRST.index("failed" if outcome == "flaky" else outcome)


def _named(stage: StageResult) -> str:
    return f"{stage.name} ({stage.mode})" if stage.mode not in ("", "non-strict") else stage.name


@lru_cache(maxsize=4096)
def _shared(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(names)
