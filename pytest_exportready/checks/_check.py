"""What a Check is: a property that a trained module must have before it is exported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from pytest_exportready.case.finding import Finding, Rule

if TYPE_CHECKING:
    from torch import nn
    from torch.export import ExportedProgram

    from pytest_exportready.case.export_case import ExportCase
    from pytest_exportready.case.options import CaseOptions


@dataclass
class Subject:
    """What a check looks at: the user's own live module and what the user said about it.

    model: as it came out of training, with whatever still wraps it.
    args, kwargs: example inputs (may be empty when only the module is at hand).
    checkpoint: the state dict meant to ship. training_state: ``scaler``, ``optimizer``, ``step`` as objects
    or as their state dicts. target_device: where it will run, such as ``"cuda"``. allow_mutation: it may change its own
    state in eval. strict: a strict export is asked for. trainable: the program will be trained on.
    """

    model: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    checkpoint: Mapping[str, Any] | None = None
    training_state: Mapping[str, Any] = field(default_factory=dict)
    target_device: str | None = None
    allow_mutation: bool = False
    strict: bool = False
    trainable: bool = False

    @classmethod
    def of(cls, case: ExportCase, options: CaseOptions) -> Subject:
        """Return what the checks look at for ``case``."""
        stated = {field.name: getattr(case, field.name) for field in fields(cls) if field.name != "strict"}
        return cls(**stated, strict="strict" in options.modes)


def nothing(subject: Subject) -> Iterable[Finding]:
    """``inspect`` of a check that looks at the exported program only."""
    return ()


@dataclass(frozen=True)
class Check:
    """One property, in a module named after it.

    rule: its code and its name (the module's name).
    inspect: findings about the module as it came out of training; reads, never writes.
    inspect_program: findings about the exported program, for faults that only the graph shows. Called once more for
    each export, with what ``inspect`` was given; the program shares no memory with the module.
    remedy: mends ``subject`` in place (it may replace ``subject.model``) and returns a line for each thing done.
    good, bad: builders of subjects that must yield no finding, and at least one.
    requires: names of checks that must have no error; otherwise this one is not run, so that one cause
    does not show up twice.
    """

    rule: Rule
    inspect: Callable[[Subject], Iterable[Finding]]
    good: tuple[Callable[[], Subject], ...]
    bad: tuple[Callable[[], Subject], ...]
    inspect_program: Callable[[ExportedProgram, Subject], Iterable[Finding]] | None = None
    remedy: Callable[[Subject], list[str]] | None = None
    requires: tuple[str, ...] = ()
