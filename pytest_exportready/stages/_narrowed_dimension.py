"""A dimension that a program takes as a constant, or in a narrower range than it was declared for."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace

import torch
from torch.export import ExportedProgram

from pytest_exportready.analysis.execution.call import Call
from pytest_exportready.analysis.execution.dynamic_shapes import AUTO, UNBOUNDED, Dynamic, by_name, dynamic_shapes
from pytest_exportready.analysis.execution.pytree import distinct
from pytest_exportready.analysis.execution.trial import Trial
from pytest_exportready.analysis.module.snapshot import preserved
from pytest_exportready.analysis.source.user_frames import is_users
from pytest_exportready.analysis.torch_internals.programs import SizeGuards, program_guards
from pytest_exportready.case.finding import Finding, Rule, Severity

SPECIALISED = Rule(
    "ER601",
    "dimension_is_dynamic",
    "A dimension that was declared dynamic (Dim.AUTO above all) can turn into a constant, or into a narrower "
    "range, without a word. Read from the shapes, ranges and guards of the program and shown by running it.",
)
NARROWER = Rule(
    "ER604",
    "size_stays_free",
    'With dynamic_shapes="auto": the trained module takes a dimension at sizes that the program does not, because the '
    "trace made a constant or a narrower range of it: an example of size 1, int(x.shape[0]), a list index, a branch on "
    "the size. The line that asked for it is named.",
)
_FREE = (
    "use an example of size 2 or more that differs from every other size, and take sizes from the input; "
    "a named Dim (not Dim.AUTO) makes torch.export itself refuse"
)
_EDGE = re.compile(r"(!= 1|>= 2)\b")  # torch sets a size of 1 apart: a bound like any other


@dataclass(frozen=True)
class Narrowed:
    """The program takes a dimension as a constant, or in a narrower range than it was declared for.

    problem: what it does, as the end of a sentence that begins with "it". guard: what the program assumes of the
    size; empty for nothing. torch_says: how it refused another size. place: of the user's source, line 0 for none.
    """

    dim: Dynamic
    problem: str
    guard: str
    torch_says: str = ""
    place: tuple[str, int] = ("", 0)
    severity: Severity = "error"

    @classmethod
    def by(cls, program: ExportedProgram, dim: Dynamic, problem: str) -> Narrowed:
        """What ``program`` does to ``dim``, with the guard that says so."""
        guards = (guard for guard in program_guards(program) if f"size()[{dim.dim}]" in guard)
        return cls(dim, problem, next(guards, ""))

    @property
    def is_edge(self) -> bool:
        """Whether all it asks is a size of 2 or more."""
        return _EDGE.search(f"{self.torch_says} {self.guard}") is not None

    def finding(self, trial: Trial) -> Finding:
        """With the line of the user's that asked for it; a warning where the user declared nothing."""
        file, line = self.place if self.place[1] else _asked_at(trial, self.dim) or self.place
        guard = f"; guard: {self.guard}" if self.guard else ""
        end = f"but it {self.problem}{guard}"
        where, place = self.dim.where, {"file": file, "line": line, "torch_says": self.torch_says}
        if trial.options.dynamic_shapes == AUTO:
            return NARROWER.warning(where, f"the trained module takes it at other sizes, {end}", _FREE, **place)
        bounds = "" if self.dim.largest >= UNBOUNDED else f" up to {self.dim.largest}"
        return replace(
            SPECIALISED.error(where, f"declared dynamic{bounds}, {end}", _FREE, **place), severity=self.severity
        )


def _asked_at(trial: Trial, dim: Dynamic) -> tuple[str, int] | None:
    """File and line of the user's that fixed the size, or asked for it."""
    name = re.split(r"[.\[]", dim.where)[0]
    subject = f"L['{name}']{dim.where.rpartition('.shape')[0].removeprefix(name)}.size()[{dim.dim}]"
    stacks = [stack for asked, _, stack in _guards(trial) if asked == subject]
    return next((lines[-1] for stack in stacks if (lines := [at for at in stack if is_users(at[0])])), None)


def _guards(trial: Trial) -> list[tuple[str, str, list[tuple[str, int]]]]:
    """What a further export, watched, fixes and assumes of sizes; nothing when it fails."""
    module = trial.reference.module
    call: Call = distinct((trial.case.args, dict(trial.case.kwargs)))
    with SizeGuards() as guards, preserved(module), suppress(Exception):
        spec = by_name(module, call, dynamic_shapes(module, (trial.case.args, trial.case.kwargs), trial.options))
        module.eval()
        torch.export.export(module, *call, dynamic_shapes=spec, strict=trial.mode == "strict")
    return guards.found
