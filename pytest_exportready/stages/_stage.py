"""The Stage: one property of a case that is tested."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pytest_exportready.analysis.execution.trial import Observation, Trial
from pytest_exportready.case.explained import ExplainedError
from pytest_exportready.case.finding import Rule


class SkipStage(Exception):
    """Raised by a stage that does not apply to a case; the message is the reason."""


class MissingTool(SkipStage):
    """Raised by a stage that needs a program or package; the message names it and how to install it."""


class StageInfrastructure(ExplainedError):
    """Raised by a stage when the machine, not the model, is at fault."""


@dataclass(frozen=True)
class Stage:
    """One stage, in a module named after it."""

    run: Callable[[Trial], Iterable[Observation]]
    """Yield findings and facts. The stage fails if a finding is an error. Raises SkipStage, StageInfrastructure."""
    rules: tuple[Rule, ...]
    """Every rule that this stage, and no other, reports."""
    after: tuple[str, ...] = ()
    """Stages that must have passed; otherwise this one is skipped with that reason."""
    follows: tuple[str, ...] = ()
    """Stages that run before this one, whatever their outcome."""
    every_mode: bool = True
    """False for a stage that runs once, not for each export mode."""
    every_rank: bool = False
    """True if each rank of a case runs it; otherwise rank 0 alone does."""
    always: bool = False
    """True for a stage that runs even if the marker's ``stages`` does not name it."""
    asked: Callable[[Trial], bool] = lambda trial: True
    """Return whether the case requests this stage. A stage that is not requested has no result."""
    opt_in: str = ""
    """The marker's argument that requests this stage, such as ``lower``; empty for a stage that always applies."""
    tools: Callable[[], object] = lambda: None
    """Return what identifies the tools that it uses in addition to torch, such as a compiler and its settings."""

    @property
    def cacheable(self) -> bool:
        """Whether its result depends on the exported program alone, so that it can be reused."""
        return bool(self.after) and not self.every_rank
