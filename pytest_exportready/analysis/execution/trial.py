"""One case in one export mode, as the stages see it, and what a stage can yield."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from pytest_exportready.analysis.execution.compare import Tolerance
from pytest_exportready.analysis.execution.dynamic_shapes import dynamic_shapes
from pytest_exportready.analysis.execution.eager_reference import EagerReference
from pytest_exportready.case.export_case import ExportCase
from pytest_exportready.case.finding import Finding
from pytest_exportready.case.options import CaseOptions, Mode
from pytest_exportready.case.readiness import StageResult

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from pytest_exportready.analysis.execution.call import Call
    from pytest_exportready.analysis.execution.program_runner import RunningProgram

Facts = dict[str, Any]
"""What a stage measured, as plain JSON types."""


@dataclass(frozen=True)
class Inspected:
    """The checks that ran."""

    checked: tuple[tuple[str, str], ...] = ()  # code and name of each
    failed: frozenset[str] = frozenset()  # names of those that found an error, crashed, or require one that did


@dataclass(frozen=True)
class EagerFailed:
    """The trained module itself does not run."""

    error: BaseException


@dataclass(frozen=True)
class Exported:
    """The result of one export: a program, or the error that torch.export raised."""

    program: ExportedProgram | None = None  # shares no storage with the user's module
    error: BaseException | None = None
    prepared: tuple[str, ...] = ()  # what the remedies changed before the export, a line each
    reproducer: str = ""  # a Python file that fails in the same way
    no_reproducer: str = ""  # why there is no such file


Observation = Finding | Facts | Inspected | EagerFailed | Exported
"""What a stage yields."""


@dataclass
class Trial:
    """One case in one scenario and one export mode.

    The stages read it; the stage loop alone sets the fields below ``cache``.
    """

    case: ExportCase
    options: CaseOptions
    mode: Mode
    scenario: str = "as_is"
    required: bool = True  # a scenario that cannot train the case fails it; otherwise that is a warning
    rank_timeout: float = 0.0  # seconds to wait for other ranks; 0 if ranks are not compared
    on_export: Callable[[Trial], Iterable[Finding]] = lambda trial: ()
    cache: ResultCache | None = None
    failed_checks: frozenset[str] = frozenset()
    results: dict[str, StageResult] = field(default_factory=dict)  # of the stages that ran so far, by name
    eager_error: BaseException | None = None
    exported: Exported | None = None

    @cached_property
    def reference(self) -> EagerReference:
        """The trained eager module in eval mode: what the program must equal."""
        return EagerReference(self.case.model)

    @property
    def call(self) -> Call:
        """The example inputs."""
        return tuple(self.case.args), dict(self.case.kwargs)

    @property
    def more_calls(self) -> list[Call]:
        """The case's ``more_inputs``."""
        return [(tuple(args), dict(kwargs)) for args, kwargs in self.case.more_inputs]

    @cached_property
    def dynamic_shapes(self) -> Any:
        """The ``dynamic_shapes`` argument of torch.export.export, in the form that the user gave.

        Raises:
            CaseError: ``dynamic_batch`` is set and no input has a batch dimension.
        """
        return dynamic_shapes(self.reference.module, self.call, self.options)

    @property
    def in_mode(self) -> str:
        """The export mode, for a message; empty if the case has only one."""
        return f" ({self.mode} export)" if len(self.options.modes) > 1 else ""

    @property
    def tolerance(self) -> Tolerance:
        return Tolerance(self.options.rtol, self.options.atol)

    @property
    def program(self) -> ExportedProgram | None:
        return self.exported.program if self.exported else None

    @property
    def error(self) -> BaseException | None:
        """What torch.export raised."""
        return self.exported.error if self.exported else None

    @cached_property
    def running(self) -> RunningProgram:
        """The exported program, to be run."""
        from pytest_exportready.analysis.execution.program_runner import RunningProgram

        assert self.program is not None
        return RunningProgram(self.program)


StageRecord = tuple[StageResult, tuple[Finding, ...]]
"""The result of one stage and its findings."""


class NotCacheable(Exception):
    """Raised by a ResultCache for a case that it cannot distinguish from a similar one; the message is the reason."""


class ResultCache(Protocol):
    """Results of earlier runs for programs that are the same in everything that matters."""

    def load(self, trial: Trial) -> Mapping[str, StageRecord]:
        """Return the cached stages of ``trial`` by name; empty if this program is not in the cache.

        Raises:
            NotCacheable: the case cannot be distinguished from a similar one.
        """

    def save(self, trial: Trial, records: Mapping[str, StageRecord]) -> None:
        """Store the stages of the ``trial`` that was loaded last."""

    def load_artifact(self, trial: Trial, stage: str) -> bytes | None:
        """Return what ``stage`` compiled from the same program in an earlier run, or None."""

    def save_artifact(self, trial: Trial, stage: str, content: bytes) -> None:
        """Store what ``stage`` compiled from the program of ``trial``."""

    def problems(self) -> list[str]:
        """Return and forget the problems since the last call: corrupt entries, a full disk."""
