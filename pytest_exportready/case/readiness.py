"""Define Readiness: all results of one case in one scenario, on one device, as plain JSON data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pytest_exportready.case.finding import Finding

Outcome = Literal["passed", "failed", "skipped", "infra"]

WORST_FIRST = ("failed", "infra", "missing", "passed", "xfailed", "skipped")
"""Every outcome of a stage or of a test: of several, the first of these counts."""


@dataclass(frozen=True)
class StageResult:
    """The result of one stage.

    Attributes:
        outcome: ``infra`` is an infrastructure error (a missing package, no memory), never a problem of the model.
        seconds: Wall time.
        mode: ``non-strict`` or ``strict`` for the stages that follow an export, otherwise empty.
        reason: Why the stage was skipped or inconclusive.
        facts: What was measured, as plain JSON (largest error, sizes, ...).
        cached: When the result was cached; empty for a result of this run.
    """

    name: str
    outcome: Outcome
    seconds: float = 0.0
    mode: str = ""
    reason: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    cached: str = ""


@dataclass(frozen=True)
class Readiness:
    """The verdict on one case in one scenario, on one device.

    Attributes:
        case: Name of the case.
        scenario: How it was trained; ``as_is`` if it was not.
        device: The device that the case was moved to, such as ``cuda``; empty if it was judged where it was built.
        stages: In the order in which they ran.
        findings: Errors first.
        checked: ``(code, name)`` of every check that ran.
        prepared: What the remedies changed before the export, a sentence each.
        seconds: Wall time.
        reproducer: Of an export that failed, a Python file that was run and raises the same; empty if there is none.
        no_reproducer: Why there is none.
        peak_mib: Peak memory of the process; 0.0 if unknown.
        peak_gpu_mib: Peak memory of the tensors on one GPU; 0.0 if unknown.
        peak_gpu_reserved_mib: The same of what torch took from the GPU, some of it for later tensors.
    """

    case: str
    scenario: str
    stages: tuple[StageResult, ...]
    findings: tuple[Finding, ...]
    checked: tuple[tuple[str, str], ...] = ()
    prepared: tuple[str, ...] = ()
    seconds: float = 0.0
    reproducer: str = ""
    no_reproducer: str = ""
    peak_mib: float = 0.0
    peak_gpu_mib: float = 0.0
    peak_gpu_reserved_mib: float = 0.0
    device: str = ""

    @property
    def ready(self) -> bool:
        """Whether every stage that ran passed and no finding of severity error counts."""
        return self.outcome == "passed"

    @property
    def outcome(self) -> Literal["passed", "failed", "infra"]:
        if any(f.blocks for f in self.findings) or any(s.outcome == "failed" for s in self.stages):
            return "failed"
        return "infra" if any(s.outcome == "infra" for s in self.stages) else "passed"

    @property
    def failed_stage(self) -> str:
        """Name of the first stage that did not pass; empty if the case is ready."""
        return next((s.name for s in self.stages if s.outcome in ("failed", "infra")), "")

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.blocks)

    def relative_to(self, root: Path) -> Readiness:
        """Return a copy with source files relative to ``root``, as reports are read on other machines."""
        return replace(self, findings=tuple(_seen_from(root, finding) for finding in self.findings))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types only."""
        return {**asdict(self), "ready": self.ready, "outcome": self.outcome, "failed_stage": self.failed_stage}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Readiness:
        return cls(
            case=data["case"],
            scenario=data["scenario"],
            stages=tuple(StageResult(**stage) for stage in data["stages"]),
            findings=tuple(Finding.from_dict(finding) for finding in data["findings"]),
            checked=tuple((code, name) for code, name in data["checked"]),
            prepared=tuple(data["prepared"]),
            seconds=data["seconds"],
            reproducer=data.get("reproducer", ""),
            no_reproducer=data.get("no_reproducer", ""),
            peak_mib=data.get("peak_mib", 0.0),
            peak_gpu_mib=data.get("peak_gpu_mib", 0.0),
            peak_gpu_reserved_mib=data.get("peak_gpu_reserved_mib", 0.0),
            device=data.get("device", ""),
        )

    def __str__(self) -> str:
        """Return the overview: a row for each check and stage, whether it passed, and its first problem."""
        rows = [(name, self._findings_of(code)) for code, name in self.checked]
        table = [("check", "passed", "first problem")]
        for name, findings in rows:
            blocking = [f for f in findings if f.blocks]
            shown = (blocking or findings)[:1]
            table.append((name, "no" if blocking else "yes", "".join(f.one_line for f in shown)))
        for stage in self.stages:
            first = stage.reason or next((f.one_line for f in self.errors if f.stage == stage.name), "")
            passed = {"passed": "yes", "failed": "no"}.get(stage.outcome, stage.outcome)
            table.append((f"{stage.name} ({stage.mode})" if stage.mode else stage.name, passed, first))
        widths = [max(len(row[column]) for row in table) for column in (0, 1)]
        lines = [f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c}".rstrip() for a, b, c in table]
        return "\n".join([f"{self.case} [{self.scenario}]: {self._verdict()}", *lines])

    def _verdict(self) -> str:
        at = next((stage.name for stage in self.stages if stage.outcome == self.outcome), self.failed_stage)
        if self.outcome == "failed":
            return f"NOT READY (failed at {at})"
        return f"INCONCLUSIVE (infrastructure error at {at})" if self.outcome == "infra" else "ready"

    def _findings_of(self, code: str) -> list[Finding]:
        return [f for f in self.findings if f.code == code]


def _seen_from(root: Path, finding: Finding) -> Finding:
    path = Path(finding.file)
    below = finding.file and path.is_relative_to(root)
    return replace(finding, file=path.relative_to(root).as_posix()) if below else finding
