"""What a Stage is: one proof about a case, and the Trial that the stages of one case share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Protocol

from pytest_exportready.case.export_case import ExportCase
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.options import CaseOptions, Mode
from pytest_exportready.case.readiness import StageResult
from pytest_exportready.discover import discover

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from pytest_exportready.analysis.execution.eager_reference import Truth
    from pytest_exportready.analysis.execution.program_runner import RunningProgram


class SkipStage(Exception):
    """Raised by a stage that has nothing to prove about this case; the message is the reason."""


class Lacking(SkipStage):
    """Raised by a stage for want of a program or a package that another run may find here; the message says what and
    how to get it.
    """


class StageInfrastructure(Exception):
    """Raised by a stage when the runner, not the model, is at fault; the message is the reason and the
    fix."""


@dataclass
class Trial:
    """One case on its way through the stages in one export mode.

    truth: the trained eager module in eval mode, before any wrapping or preparation: what the program must
    equal.
    program: set by the stage ``export``; shares no storage with the user's module. error: what torch.export
    raised instead. reproducer: a Python file that fails alike, or ``# none: `` and why.
    together: seconds to wait for other ranks; 0 where they are not compared.
    facts: what the running stage measured (plain JSON); reset before each stage.
    memory: where stages find what they compiled in earlier runs; None without one.
    """

    case: ExportCase
    options: CaseOptions
    mode: Mode
    truth: Truth
    together: float = 0.0
    program: ExportedProgram | None = None
    error: BaseException | None = None
    reproducer: str = ""
    prepared: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    memory: Memory | None = None

    @cached_property
    def running(self) -> RunningProgram:
        """The exported program, to be run."""
        from pytest_exportready.analysis.execution.program_runner import RunningProgram

        assert self.program is not None
        return RunningProgram(self.program)


@dataclass(frozen=True)
class Stage:
    """One stage, in a module named after it.

    run: yields findings; the stage fails when one of them is an error. Raises SkipStage or
    StageInfrastructure.
    after: stages that must have passed; otherwise this one is skipped and says so.
    rules: every code that it (and it alone) can yield, with its documentation.
    every_mode: False for a stage that does not look at the program and runs once.
    asked: whether a case and its options ask for it; what it does not ask for is no result, not a skipped one.
    every_rank: where a case is judged in several ranks whose results are put together, each of them runs it; the
    others are left to rank 0.
    tools: what the stage uses besides torch, such as a compiler and its settings, as a value that is another when they
    are.
    """

    run: Callable[[Trial], Iterable[Finding]]
    rules: tuple[Rule, ...]
    after: tuple[str, ...] = ()
    every_mode: bool = True
    every_rank: bool = False
    asked: Callable[[ExportCase, CaseOptions], bool] = lambda case, options: True
    tools: Callable[[], object] = lambda: None


Proved = tuple[StageResult, tuple[Finding, ...]]
"""What one stage came to and what it found."""


class Unremembered(Exception):
    """Raised by a Memory for a case that it cannot tell from another like it; the message is the reason."""


class Memory(Protocol):
    """What was proved before, about programs that are the same in everything that counts."""

    def recall(self, trial: Trial) -> Mapping[str, Proved]:
        """By name, the stages behind the export of ``trial``; empty when this program was not met before. Raises
        Unremembered.
        """

    def keep(self, trial: Trial, proved: Mapping[str, Proved]) -> None:
        """Remember these stages of the ``trial`` that was asked for last."""

    def artifact(self, trial: Trial, stage: str) -> bytes | None:
        """What ``stage`` compiled of such a program before; None if it is not known."""

    def keep_artifact(self, trial: Trial, stage: str, content: bytes) -> None:
        """Remember what ``stage`` compiled of the program of ``trial``."""

    def problems(self) -> list[str]:
        """What was not as it should be since this was last asked: corrupt entries, a full disk."""


@cache
def all_stages() -> dict[str, Stage]:
    """Every stage by name, each one behind those it comes after."""
    from pytest_exportready import stages

    found = discover(stages, "STAGE", Stage)
    ordered: dict[str, Stage] = {}
    while len(ordered) < len(found):
        ready = [n for n, s in found.items() if n not in ordered and all(a in ordered for a in s.after)]
        if not ready:
            raise RuntimeError(
                f"stages wait for each other or for one that does not exist: {set(found) - set(ordered)}"
            )
        ordered[ready[0]] = found[ready[0]]
    return ordered
