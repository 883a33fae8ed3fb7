"""Readiness: everything that one case in one scenario yielded, as plain JSON data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pytest_exportready.case.finding import Finding

Outcome = Literal["passed", "failed", "skipped", "infra"]

WORST_FIRST = ("failed", "infra", "missing", "passed", "xfailed", "skipped")
"""Every outcome of a stage or of a test: where several are put together, the first of these counts."""


@dataclass(frozen=True)
class StageResult:
    """What one stage said.

    outcome: ``infra`` is the runner's fault (a missing package, no memory), never the model's.
    mode: ``non-strict`` or ``strict`` for the stages that follow an export, else empty.
    reason: why it was skipped or why the runner failed.
    seconds: wall time. facts: what was measured, plain JSON (largest error, sizes tried, ...).
    cached: when it was proved, where it is the result of an earlier run; empty for one of this run.
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
    """The verdict on one case in one scenario.

    case: name of the case. scenario: how it was trained (``as_is`` when it was judged as given).
    stages: in the order they ran. findings: errors first. checked: ``(code, name)`` of every check that ran.
    prepared: what the remedies did before the export, a line each. seconds: wall time.
    reproducer: of an export that failed, a Python file that was run and raises the same; empty for none.
    no_reproducer: why there is none.
    peak_mib, peak_gpu_mib: memory that it took at the most, of the process and of one GPU; 0.0 where that is not known.
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

    @property
    def ready(self) -> bool:
        """True when every stage that ran passed and no finding of severity error counts."""
        return self.outcome == "passed"

    @property
    def outcome(self) -> Literal["passed", "failed", "infra"]:
        if any(f.blocks for f in self.findings) or any(s.outcome == "failed" for s in self.stages):
            return "failed"
        return "infra" if any(s.outcome == "infra" for s in self.stages) else "passed"

    @property
    def failed_stage(self) -> str:
        """Name of the first stage that did not pass; empty when the case is ready."""
        return next((s.name for s in self.stages if s.outcome in ("failed", "infra")), "")

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.blocks)

    def relative_to(self, root: Path) -> Readiness:
        """The same, with source files below ``root`` named as seen from there, as reports are read elsewhere."""
        return replace(self, findings=tuple(_seen_from(root, finding) for finding in self.findings))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types only."""
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
        )

    def __str__(self) -> str:
        """The overview: a row for each check and stage, whether it passed, and an example of why not."""
        rows = [(name, self._findings_of(code)) for code, name in self.checked]
        table = [("check", "passed", "example of why not")]
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
