"""The text of an issue for PyTorch: what fails, since when, and how to reproduce it."""

from __future__ import annotations

from pytest_exportready.case.wording import counted
from pytest_exportready.report import truncate
from pytest_exportready.report.markdown import fenced
from pytest_exportready.report.nightly.commands import again, bisect
from pytest_exportready.report.nightly.comparison import CauseRow, Comparison

_SHOWN = ("torch", "torch.git_version", "python", "platform", "gpu", "driver")
_TRACE = 6_000  # characters of the failure in full


def issue(comparison: Comparison, row: CauseRow) -> str:
    """Return Markdown, its first line the title. Text of unknown origin cannot end its code block."""
    change = row.changes[0]
    result = change.now.result if change.now else None
    leg = change.cell.leg
    now, was = comparison.tonight.environment(leg), comparison.before[-1].environment(leg) if comparison.before else {}
    errors = result.readiness.errors if result and result.readiness else ()
    message = next((str(error) for error in errors if error.code == row.cause.what), result.message if result else "")
    stage = f"torch.export: {row.cause.stage}" if row.cause.stage else "torch.export"
    parts = [
        truncate.line(f"[{stage}] {row.cause.message}", 120),
        f"{counted(len(row.changes), 'case')} stopped passing between two nights"
        f"{f': {row.because}' if row.because else ''}.",
        fenced(message),
        "Run again:",
        fenced(again(change.cell.nodeid, now.get("torch", "")), "sh"),
    ]
    command = bisect("torch", was, now, change.cell.nodeid)
    if command:
        parts += ["Bisect between these commits of PyTorch:", fenced(command, "sh")]
    if result and result.text:
        parts += ["Full failure:", fenced(truncate.block(result.text, _TRACE))]
    versions = [(key, was.get(key, "-"), now[key]) for key in _SHOWN if key in now]
    parts.append(fenced("\n".join(f"{key}: {before} -> {after}" for key, before, after in versions)))
    return "\n\n".join(parts)
