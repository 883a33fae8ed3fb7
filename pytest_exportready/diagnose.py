"""An export failed: which kind of failure is it, where, and what mends it?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

from pytest_exportready.discover import discover
from pytest_exportready.failure import chain, user_place
from pytest_exportready.finding import Finding, Rule
from pytest_exportready.text import exception_text, plain

if TYPE_CHECKING:
    from torch import nn

    from pytest_exportready.stage import Trial

UNCLASSIFIED = Rule(
    "ER400",
    "export_succeeds",
    "torch.export raised something that no diagnosis knows. The message is the first paragraph of its error.",
)


@dataclass(frozen=True)
class Failure:
    """An exception of torch.export, the module that was exported (prepared), and the trial it belongs to."""

    error: BaseException
    module: nn.Module
    trial: Trial

    @cached_property
    def text(self) -> str:
        """The messages of the whole cause chain."""
        return plain("\n".join(_message(link) for link in chain(self.error)))

    @cached_property
    def place(self) -> tuple[str, int]:
        return user_place(self.error)

    def finding(self, rule: Rule, where: str, message: str, fix: str) -> Finding:
        file, line = self.place
        text = f"{message} (torch says: {exception_text(self.error, 180)})"
        return rule.error(where, text, fix, file=file, line=line)


@dataclass(frozen=True)
class Diagnosis:
    """One kind of export failure, in a module named after it.

    explain: the finding for a failure of this kind, None for any other.
    """

    rule: Rule
    explain: Callable[[Failure], Finding | None]


@cache
def all_diagnoses() -> dict[str, Diagnosis]:
    """Every diagnosis by name, sorted."""
    from pytest_exportready import diagnosis

    return discover(diagnosis, "DIAGNOSIS", Diagnosis)


def diagnose(failure: Failure) -> Finding:
    """The finding of the first diagnosis that knows this failure, else an unclassified one."""
    for diagnosis in all_diagnoses().values():
        finding = diagnosis.explain(failure)
        if finding is not None:
            return finding
    file, line = failure.place
    message = f"torch.export ({failure.trial.mode}) raised {exception_text(failure.error)}"
    fix = "mend the line named, or keep it out of forward" if file else "run torch.export.export(model, args) by hand"
    return UNCLASSIFIED.error("", message, fix, file=file, line=line)


def _message(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__
