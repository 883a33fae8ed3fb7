"""Finding: the one form in which everything that is wrong, odd or worth knowing is told."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from pytest_exportready.case.explained import with_fix
from pytest_exportready.case.sanitize import plain

Severity = Literal["error", "warning", "note"]

MESSAGE_LIMIT = 500
PATCH_LIMIT = 4_000
"""Characters; a longer patch is left out, as half of one applies nowhere."""


@dataclass(frozen=True)
class Finding:
    """One thing found about one case.

    code: stable identifier such as ``ER302``; used for suppression and links.
    name: the property that does not hold, such as ``batchnorm_frozen``.
    severity: ``error`` makes the case not ready; ``warning`` and ``note`` do not.
    where: qualified name of the module, parameter or argument; empty for the whole model.
    message: what is wrong, never with tensor contents.
    fix: what to do about it, in one line.
    file, line: the user's own source, where one is known (line is 1-based, 0 for none).
    stage: the stage that found it.
    ignored: the reason given by the case's marker for not counting it; empty when it counts.
    patch: a unified diff of the user's file that was proved to fix it; empty for none.
    torch_says: what torch or another library raised, in one line; empty for nothing.
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
        """True when this finding alone makes the case not ready."""
        return self.severity == "error" and not self.ignored

    @property
    def place(self) -> str:
        """Where, in one line: rank, qualified name and source line, as far as they are known."""
        source = f"{self.file}:{self.line}" if self.file and self.line else self.file
        rank = "" if self.rank is None else f"rank {self.rank}"
        return ", ".join(part for part in (rank, self.where, source) if part) or "the model"

    @property
    def problem(self) -> str:
        """What is wrong, with what torch says: two findings of one rule and place that share it have one cause."""
        return f"{self.message} (torch says: {self.torch_says})" if self.torch_says else self.message

    @property
    def summary(self) -> str:
        """Return place, rule, message and fix in one line."""
        return with_fix(f"{self.place}: [{self.code} {self.name}] {self.message}", self.fix)

    @property
    def one_line(self) -> str:
        """Return the summary and what torch says, for tables; the patch has no place there."""
        return f"{self.summary} torch: {self.torch_says}" if self.torch_says else self.summary

    def at(self, stage: str) -> Finding:
        return replace(self, stage=stage)

    def ignored_because(self, reason: str) -> Finding:
        return replace(self, ignored=reason)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Finding:
        """Return the finding that ``to_dict`` gave, also from an earlier version, where a note was called info."""
        return cls(**{**data, "severity": "note" if data["severity"] == "info" else data["severity"]})

    def __str__(self) -> str:
        """Return the summary, then what torch says and the patch on lines of their own."""
        torch = f" torch: {self.torch_says}" if self.torch_says else ""
        return "\n".join(part for part in (self.summary, torch, self.patch) if part)


@dataclass(frozen=True)
class Rule:
    """What a code stands for. ``doc`` is what ``exportready explain CODE`` prints."""

    code: str
    name: str
    doc: str = ""

    def report(self, severity: Severity, where: str, message: str, fix: str = "", **place: Any) -> Finding:
        return Finding(self.code, self.name, severity, where, message, fix, **place)

    def error(self, where: str, message: str, fix: str, **place: Any) -> Finding:
        return self.report("error", where, message, fix, **place)

    def warning(self, where: str, message: str, fix: str, **place: Any) -> Finding:
        return self.report("warning", where, message, fix, **place)

    def note(self, where: str, message: str, fix: str = "", **place: Any) -> Finding:
        return self.report("note", where, message, fix, **place)
