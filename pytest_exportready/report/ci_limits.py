"""Limits of CI services for one JUnit file, and a Run in parts within them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pytest_exportready.case.explained import with_fix
from pytest_exportready.report.run import Run

CASES = 5_000
"""Buildkite rejects a file with more."""

BYTES = 30_000_000
"""GitLab rejects a larger file."""


def too_large(run: Run, junit: Path) -> str:
    """Return which limits the written file exceeds, and the fix; empty if it exceeds none."""
    size = junit.stat().st_size
    exceeded = [f"{len(run.results):,} cases (limit of Buildkite: {CASES:,})"] if len(run.results) > CASES else []
    exceeded += [f"{size / 1e6:,.0f} MB (limit of GitLab: {BYTES / 1e6:.0f})"] if size > BYTES else []
    if not exceeded:
        return ""
    fitting = min(CASES, max(int(len(run.results) * BYTES / max(size, 1) * 0.8), 1))
    fix = f"Run `exportready report {junit.name} -o parts.xml --cases {fitting}`, or use `--export-ready-shard=1/N`."
    return with_fix(f"{junit.name} has {' and '.join(exceeded)}", fix)


def parts(run: Run, cases: int) -> Iterator[Run]:
    """Yield runs of at most ``cases`` results each, which together read back as ``run``."""
    for at in range(0, max(len(run.results), 1), cases):
        yield replace(run, results=run.results[at : at + cases], seconds=run.seconds if at == 0 else 0.0)
