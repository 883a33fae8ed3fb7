"""Failure, a failed export, and Diagnosis, one kind of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from pytest_exportready.analysis.module.unregistered_tensors import unregistered_tensors
from pytest_exportready.analysis.source.user_frames import chain, module_at, source_files, user_place
from pytest_exportready.analysis.source.value_dependent_lines import Suspect, suspects
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.sanitize import exception_text, plain

if TYPE_CHECKING:
    import torch
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
        """File and line of the user where the error was raised; ``("", 0)`` if unknown."""
        return user_place(self.error)

    @cached_property
    def where(self) -> str:
        """Qualified name of the module that raised; empty for the root or if unknown."""
        return module_at(self.error, self.module) or ""

    @cached_property
    def suspects(self) -> list[Suspect]:
        """Lines of the source that read tensor values or write state, whether or not the export reached them."""
        return suspects(self.module, *self.trial.call)

    @cached_property
    def tensors(self) -> dict[str, torch.Tensor]:
        """Every tensor that the module holds, registered or not, by qualified name."""
        module = self.module
        return dict([*module.named_parameters(), *module.named_buffers(), *unregistered_tensors(module)])

    def says(self, pattern: str) -> re.Match[str] | None:
        """Search the messages."""
        return re.search(pattern, self.text)

    def comes_through(self, *files: str) -> bool:
        """Return whether the stack, including torch's own frames, passes through a file that ends in one of these."""
        return any(file.replace("\\", "/").endswith(files) for file in source_files(self.error))

    def finding(
        self,
        rule: Rule,
        message: str,
        fix: str,
        *,
        where: str = "",
        place: tuple[str, int] | None = None,
        patch: str = "",
    ) -> Finding:
        """Return an error that quotes torch.

        Args:
            where: By default the module that raised.
            place: File and line; by default those where the error was raised.
        """
        file, line = place or self.place
        says = exception_text(self.error, 180)
        return rule.error(where or self.where, message, fix, file=file, line=line, patch=patch, torch_says=says)


@dataclass(frozen=True)
class Signs:
    """How to recognize a failure, and what to report."""

    pattern: str  # a regular expression that is searched in the messages
    message: str  # may refer to groups of the pattern, as in ``re.Match.expand``; so may the fix
    fix: str
    files: tuple[str, ...] = ()  # a stack that passes through a file that ends in one of these is a sign, too

    def explain(self, failure: Failure, rule: Rule) -> Finding | None:
        found = failure.says(self.pattern)
        if found is not None:
            return failure.finding(rule, found.expand(self.message), found.expand(self.fix))
        return failure.finding(rule, self.message, self.fix) if failure.comes_through(*self.files) else None


@dataclass(frozen=True)
class Diagnosis:
    """One kind of export failure, in a module named after it."""

    rule: Rule
    explain: Callable[[Failure], Finding | None]  # returns None for a failure of another kind
    turn: Literal["first", "middle", "last"] = "middle"  # first: hides behind messages of others; last: most general

    @classmethod
    def by_signs(cls, rule: Rule, *kinds: Signs) -> Diagnosis:
        """Return a diagnosis that reports the first of ``kinds`` that matches."""

        def explain(failure: Failure) -> Finding | None:
            found = (kind.explain(failure, rule) for kind in kinds)
            return next((finding for finding in found if finding is not None), None)

        return cls(rule, explain)


def _message(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__
