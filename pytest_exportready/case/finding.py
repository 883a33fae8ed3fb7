"""Define a Finding, the one form in which problems are reported, and the Rule that it names."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from pytest_exportready.case.explained import with_fix
from pytest_exportready.case.sanitize import plain

Severity = Literal["error", "warning", "note"]

MESSAGE_LIMIT = 500
PATCH_LIMIT = 4_000
"""Characters; a longer patch is left out, as a part of one cannot be applied."""


@dataclass(frozen=True)
class Finding:
    """One problem of one case.

    Attributes:
        code: Stable identifier such as ``ER302``; used for suppression and links.
        name: The property that does not hold, such as ``batchnorm_frozen``.
        severity: ``error`` makes the case not ready; ``warning`` and ``note`` do not.
        where: Qualified name of the module, parameter or argument; empty for the whole model.
        message: What is wrong, without contents of tensors.
        fix: What to do about it, in one line.
        file: The user's source file; empty if unknown.
        line: 1-based line in ``file``; 0 if unknown.
        rank: The rank that differs; None if it is not one rank.
        stage: The stage that reported it.
        ignored: The reason of the marker for ignoring it; empty if it counts.
        patch: A unified diff of the user's file that was proved to fix it; empty if there is none.
        torch_says: What torch or another library raised, in one line; empty if nothing.
    """

    code: str
    name: str
    severity: Severity
    where: str
    message: str
    fix: str
    file: str = ""
    line: int = 0
    rank: int | None = None
    stage: str = ""
    ignored: str = ""
    patch: str = ""
    torch_says: str = ""

    def __post_init__(self) -> None:
        for field in ("where", "message", "fix", "file", "torch_says"):
            object.__setattr__(self, field, plain(getattr(self, field), MESSAGE_LIMIT))
        object.__setattr__(self, "patch", plain(self.patch) if len(self.patch) <= PATCH_LIMIT else "")

    @property
    def blocks(self) -> bool:
        """Whether this finding makes the case not ready."""
        return self.severity == "error" and not self.ignored

    @property
    def place(self) -> str:
        """Rank, qualified name and source line in one line, as far as they are known."""
        source = f"{self.file}:{self.line}" if self.file and self.line else self.file
        rank = "" if self.rank is None else f"rank {self.rank}"
        return ", ".join(part for part in (rank, self.where, source) if part) or "the model"

    @property
    def problem(self) -> str:
        """The message and what torch says: findings of one rule and place have one cause if these are equal."""
        return f"{self.message} (torch says: {self.torch_says})" if self.torch_says else self.message

    @property
    def summary(self) -> str:
        """Place, rule, message and fix in one line."""
        return with_fix(f"{self.place}: [{self.code} {self.name}] {self.message}", self.fix)

    @property
    def one_line(self) -> str:
        """The summary and what torch says, for tables."""
        return f"{self.summary} torch: {self.torch_says}" if self.torch_says else self.summary

    def at(self, stage: str) -> Finding:
        return replace(self, stage=stage)

    def ignored_because(self, reason: str) -> Finding:
        return replace(self, ignored=reason)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Finding:
        """Return the finding of ``to_dict``, also of an earlier version, which called a note info."""
        return cls(**{**data, "severity": "note" if data["severity"] == "info" else data["severity"]})

    def __str__(self) -> str:
        """Return the summary, then what torch says and the patch on lines of their own."""
        torch = f" torch: {self.torch_says}" if self.torch_says else ""
        return "\n".join(part for part in (self.summary, torch, self.patch) if part)


@dataclass(frozen=True)
class Rule:
    """The code and name of a property, and what ``exportready explain CODE`` prints."""

    code: str
    name: str
    doc: str = ""  # the docstring of the module if empty

    def report(self, severity: Severity, where: str, message: str, fix: str = "", **place: Any) -> Finding:
        return Finding(self.code, self.name, severity, where, message, fix, **place)

    def error(self, where: str, message: str, fix: str, **place: Any) -> Finding:
        return self.report("error", where, message, fix, **place)

    def warning(self, where: str, message: str, fix: str, **place: Any) -> Finding:
        return self.report("warning", where, message, fix, **place)

    def note(self, where: str, message: str, fix: str = "", **place: Any) -> Finding:
        return self.report("note", where, message, fix, **place)
