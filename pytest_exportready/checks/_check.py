"""Define a Check: a property that a trained module must have before it is exported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.module.wrappers import unwrap
from pytest_exportready.case.finding import Finding, Rule

if TYPE_CHECKING:
    from torch import nn
    from torch.export import ExportedProgram

    from pytest_exportready.case.export_case import ExportCase
    from pytest_exportready.case.options import CaseOptions


@dataclass
class Subject:
    """The module that a check looks at, and what the user said about it; the fields of an ExportCase."""

    model: nn.Module  # as it came out of training, with its wrappers
    args: tuple[Any, ...] = ()  # example inputs; empty if only the module is known
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    checkpoint: Mapping[str, Any] | None = None
    training_state: Mapping[str, Any] = field(default_factory=dict)
    target_device: str | None = None
    allow_mutation: bool = False
    strict: bool = False  # whether strict export is one of the case's modes
    trainable: bool = False

    @property
    def module(self) -> nn.Module:
        """The model without the wrappers of training."""
        return unwrap(self.model)[0]

    @property
    def call(self) -> Call:
        return self.args, self.kwargs

    @classmethod
    def of(cls, case: ExportCase, options: CaseOptions) -> Subject:
        stated = {field.name: getattr(case, field.name) for field in fields(cls) if field.name != "strict"}
        return cls(**stated, strict="strict" in options.modes)


def nothing(subject: Subject) -> Iterable[Finding]:
    """Report nothing: the ``inspect`` of a check that looks at the exported program only."""
    return ()


@dataclass(frozen=True)
class Check:
    """One property, in a module named after it."""

    rule: Rule  # its name is the name of the module
    inspect: Callable[[Subject], Iterable[Finding]]  # reads the trained module, never writes
    good: tuple[Callable[[], Subject], ...]  # builders of subjects without errors and warnings
    bad: tuple[Callable[[], Subject], ...]  # builders of subjects with at least one
    inspect_program: Callable[[ExportedProgram, Subject], Iterable[Finding]] | None = None
    """Looks at each exported program, for faults that only the graph shows. It shares no memory with the module."""
    remedy: Callable[[Subject], list[str]] | None = None
    """Fixes the subject in place (it may replace ``subject.model``) and returns a sentence for each change."""
    requires: tuple[str, ...] = ()
    """Names of checks without whose property this one is not run, so that one cause is not reported twice."""
