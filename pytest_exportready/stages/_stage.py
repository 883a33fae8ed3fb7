"""What a Stage is: one proof about a case."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pytest_exportready.analysis.execution.trial import Observation, Trial
from pytest_exportready.case.explained import ExplainedError
from pytest_exportready.case.finding import Rule


class SkipStage(Exception):
    """Raised by a stage that has nothing to prove about this case; the message is the reason."""


class MissingTool(SkipStage):
    """Raised by a stage without a program or package that it needs; the message names it and how to install it."""


class StageInfrastructure(ExplainedError):
    """Raised by a stage when the machine, not the model, is at fault."""


@dataclass(frozen=True)
class Stage:
    """One stage, in a module named after it."""

    run: Callable[[Trial], Iterable[Observation]]
    """Yields findings and facts. The stage fails if a finding is an error. Raises SkipStage, StageInfrastructure."""
    rules: tuple[Rule, ...]
    """Every rule that this stage, and no other, reports."""
    after: tuple[str, ...] = ()
    """Stages that must have passed; otherwise this one is skipped with that reason."""
    follows: tuple[str, ...] = ()
    """Stages that run before this one, whatever their outcome."""
    every_mode: bool = True
    """False for a stage that does not look at the program and runs once."""
    every_rank: bool = False
    """True if each rank of a case runs it; otherwise rank 0 alone does."""
    always: bool = False
    """True for a stage that runs even if the marker's ``stages`` does not name it."""
    asked: Callable[[Trial], bool] = lambda trial: True
    """Whether the case asks for it. A stage that is not asked for has no result."""
    opt_in: str = ""
    """The marker's argument that asks for this stage, such as ``lower``; empty for a stage that always applies."""
    tools: Callable[[], object] = lambda: None
    """What it uses besides torch, such as a compiler and its settings: a value that changes when these do."""

    @property
    def cacheable(self) -> bool:
        """Whether its result depends on the exported program alone, and so can be reused."""
        return bool(self.after) and not self.every_rank
