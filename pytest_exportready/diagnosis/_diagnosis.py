"""An export failed: which kind of failure is it, where, and what mends it?"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from pytest_exportready.analysis.source.user_frames import chain, module_at, source_files, user_place
from pytest_exportready.analysis.source.value_dependent_lines import Suspect, suspects
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.sanitize import exception_text, plain

if TYPE_CHECKING:
    from torch import nn

    from pytest_exportready.analysis.execution.trial import Trial

_QUOTED = re.compile(
    r"\n(?:from user code:|User Stack|The following call raised this error:|Stack trace of ).*|\n *Hint: [^\n]*",
    re.DOTALL,
)


@dataclass(frozen=True)
class Failure:
    """An exception of torch.export, the module that was exported (prepared), and the trial it belongs to."""

    error: BaseException
    module: nn.Module
    trial: Trial

    @cached_property
    def text(self) -> str:
        """The messages of the whole cause chain, without the source lines and advice that torch quotes in them."""
        return plain("\n".join(_QUOTED.sub("", _message(link)) for link in chain(self.error)))

    @cached_property
    def place(self) -> tuple[str, int]:
        return user_place(self.error)

    @cached_property
    def where(self) -> str:
        """Qualified name of the module at fault; empty for the root or when it is unknown."""
        return module_at(self.error, self.module) or ""

    @cached_property
    def suspects(self) -> list[Suspect]:
        """Lines of the source that ask for tensor values or write state, whether or not the export came to them."""
        case = self.trial.case
        return suspects(self.module, case.args, case.kwargs)

    def says(self, signs: re.Pattern[str]) -> re.Match[str] | None:
        """Where ``signs`` are in the messages."""
        return signs.search(self.text)

    def comes_through(self, *files: str) -> bool:
        """Whether a file of the stack, torch's own too, ends in one of ``files``."""
        return any(file.replace("\\", "/").endswith(files) for file in source_files(self.error))

    def finding(
        self, rule: Rule, where: str, message: str, fix: str, place: tuple[str, int] | None = None, patch: str = ""
    ) -> Finding:
        """An error at ``where``, for an empty one at the module that the error came through.

        place: file and line, where they are better known than from the stack of the error.
        """
        file, line = place or self.place
        says = exception_text(self.error, 180)
        return rule.error(where or self.where, message, fix, file=file, line=line, patch=patch, torch_says=says)


@dataclass(frozen=True)
class Diagnosis:
    """One kind of export failure, in a module named after it.

    explain: the finding for a failure of this kind, None for any other.
    turn: the kinds that hide behind messages of others are asked first, the most general last.
    """

    rule: Rule
    explain: Callable[[Failure], Finding | None]
    turn: Literal["first", "middle", "last"] = "middle"


def _message(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__
