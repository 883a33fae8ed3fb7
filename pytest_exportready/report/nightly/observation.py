"""Observation: what one cell came to in one night, as far as nights are compared by it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple

from pytest_exportready.case.facts import SAME_EVERY_NIGHT
from pytest_exportready.case.readiness import Outcome as StageOutcome, StageResult
from pytest_exportready.report.cause import Cause, causes_of
from pytest_exportready.report.run import Outcome as TestOutcome, TestResult

Outcome = TestOutcome | Literal["flaky"]

_FIRST: tuple[Outcome, ...] = ("failed", "passed", "xfailed", "infra", "skipped", "missing")


class Cell(NamedTuple):
    """A case in one configuration. leg: of a matrix; empty where a night has no legs."""

    nodeid: str
    leg: str = ""


@dataclass(frozen=True)
class Observation:
    """outcome: ``flaky`` is what passed and failed in the same night, by retries or in files of the same leg.

    causes: of a failure; message: why, in a line. covered: stages that gave a verdict and checks that ran.
    stages: outcome of each. seconds: by stage, one for each time that it ran. exact: facts that must be the same.
    result: where it comes from.
    """

    outcome: Outcome
    causes: tuple[Cause, ...]
    message: str
    covered: frozenset[str]
    stages: dict[str, StageOutcome]
    seconds: dict[str, tuple[float, ...]]
    exact: dict[str, int]
    result: TestResult

    @property
    def judged(self) -> bool:
        """Whether there is a verdict on the model."""
        return self.outcome in ("passed", "failed", "flaky", "xfailed")

    @property
    def failing(self) -> bool:
        return self.outcome in ("failed", "xfailed")


def observed(result: TestResult) -> Observation:
    """What ``result`` says."""
    record = result.readiness
    stages = record.stages if record else ()
    ran = tuple(_named(stage) for stage in stages if stage.outcome in ("passed", "failed"))
    checks = tuple(name for _, name in record.checked) if record else ()
    return Observation(
        outcome="flaky" if result.outcome == "passed" and result.earlier else result.outcome,
        causes=causes_of(result),
        message=result.message,
        covered=_shared(ran + checks),
        stages=result.cells,
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
    """Two observations of the same cell in the same night: a verdict counts before none, and two that differ are
    flaky."""
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
