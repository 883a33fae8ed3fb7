"""A dimension that is constant in the program, or limited to a narrower range than it was declared for."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace

import torch
from torch.export import ExportedProgram

from pytest_exportready.analysis.execution.dynamic_shapes import AUTO, UNBOUNDED, Dynamic, by_name
from pytest_exportready.analysis.execution.pytree import distinct
from pytest_exportready.analysis.execution.trial import Trial
from pytest_exportready.analysis.module.snapshot import preserved
from pytest_exportready.analysis.source.user_frames import is_users
from pytest_exportready.analysis.torch_internals.programs import SizeGuards, program_guards
from pytest_exportready.case.finding import Finding, Rule, Severity

SPECIALIZED = Rule(
    "ER601",
    "dimension_is_dynamic",
    """A dimension that was declared dynamic is dynamic in the program, in the whole declared range.

    Read from the shapes, ranges and guards of the program, and shown by running it.

    Why it matters:
        torch.export makes a dimension with `Dim.AUTO` constant, or narrows its range, without an error.

    Example:
        auto = torch.export.Dim.AUTO
        export_ready_check(nn.Linear(4, 2).eval(), (torch.randn(1, 4),), dynamic_shapes=({0: auto},))

    Instead:
        auto = torch.export.Dim.AUTO
        export_ready_check(nn.Linear(4, 2).eval(), (torch.randn(3, 4),), dynamic_shapes=({0: auto},))

    Severity:
        error: the program is for some of the declared sizes only.
        warning: only sizes at which an inner size becomes 1 are refused.
    """,
)
NARROWER = Rule(
    "ER604",
    "size_stays_free",
    """With `dynamic_shapes="auto"`, the program accepts every size that the eager module accepts.

    Why it matters:
        An example of size 1, `int(x.shape[0])`, a list index or a branch on the size makes the size constant
        or narrows its range.

    Example:
        export_ready_check(nn.Linear(4, 2).eval(), (torch.randn(1, 4),), dynamic_shapes="auto")

    Instead:
        export_ready_check(nn.Linear(4, 2).eval(), (torch.randn(3, 4),), dynamic_shapes="auto")

    Severity:
        warning: always. The line that fixed the size is named.
    """,
)
_KEEP_FREE = (
    "Use an example of size 2 or more that differs from every other size, and compute with sizes in `forward` without "
    "`int()`. With a named `Dim`, torch.export reports the cause."
)
_EDGE = re.compile(r"(!= 1|>= 2)\b")  # torch treats size 1 separately


@dataclass(frozen=True)
class Narrowed:
    """What the program does to a dimension."""

    dim: Dynamic
    problem: str  # the end of a sentence that begins with the dimension: "is constant"
    guard: str  # what the program assumes of the size; empty if unknown
    torch_says: str = ""  # how it refused another size
    place: tuple[str, int] = ("", 0)  # of user code
    severity: Severity = "error"

    @classmethod
    def by(cls, program: ExportedProgram, dim: Dynamic, problem: str) -> Narrowed:
        """Describe what ``program`` does to ``dim``, with the guard that shows it."""
        guards = (guard for guard in program_guards(program) if f"size()[{dim.dim}]" in guard)
        return cls(dim, problem, next(guards, ""))

    @property
    def is_edge(self) -> bool:
        """Whether the program only requires a size of 2 or more."""
        return _EDGE.search(f"{self.torch_says} {self.guard}") is not None

    def finding(self, trial: Trial) -> Finding:
        """Return the finding, with the line of user code; a warning if the user did not declare the dimension."""
        file, line = self.place if self.place[1] else _fixed_at(trial, self.dim) or self.place
        guard = f" Guard: {self.guard}." if self.guard else ""
        where, place = self.dim.where, {"file": file, "line": line, "torch_says": self.torch_says}
        if trial.options.dynamic_shapes == AUTO:
            message = f"The dimension is not dynamic, although the eager module accepts other sizes: it {self.problem}."
            return NARROWER.warning(where, f"{message}{guard}", _KEEP_FREE, **place)
        bounds = "" if self.dim.largest >= UNBOUNDED else f" up to {self.dim.largest}"
        message = f"The dimension was declared dynamic{bounds}, but it {self.problem}."
        return replace(SPECIALIZED.error(where, f"{message}{guard}", _KEEP_FREE, **place), severity=self.severity)


def _fixed_at(trial: Trial, dim: Dynamic) -> tuple[str, int] | None:
    """Return the line of user code that fixed the size or depended on it."""
    name = re.split(r"[.\[]", dim.where)[0]
    subject = f"L['{name}']{dim.where.rpartition('.shape')[0].removeprefix(name)}.size()[{dim.dim}]"
    stacks = [stack for guarded, _, stack in _guards(trial) if guarded == subject]
    return next((lines[-1] for stack in stacks if (lines := [at for at in stack if is_users(at[0])])), None)


def _guards(trial: Trial) -> list[tuple[str, str, list[tuple[str, int]]]]:
    """Export again, and return what torch fixes and assumes of sizes; empty if the export fails."""
    module = trial.reference.module
    args, kwargs = distinct(trial.call)
    with SizeGuards() as guards, preserved(module), suppress(Exception):
        shapes = by_name(module, (args, kwargs), trial.dynamic_shapes)
        module.eval()
        torch.export.export(module, args, kwargs, dynamic_shapes=shapes, strict=trial.mode == "strict")
    return guards.found
