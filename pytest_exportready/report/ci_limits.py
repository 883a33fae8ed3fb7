"""What CI services take of one JUnit file, and a Run in parts that are small enough for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pytest_exportready.report.run import Run

CASES = 5_000
"""Buildkite refuses a file with more."""

BYTES = 30_000_000
"""GitLab refuses a larger file."""


def too_large(run: Run, junit: Path) -> str:
    """What a CI service will not take of the written file, and what to do; empty when there is nothing to say."""
    size = junit.stat().st_size
    told = [f"{len(run.results):,} cases (Buildkite takes {CASES:,} a file)"] if len(run.results) > CASES else []
    told += [f"{size / 1e6:,.0f} MB (GitLab takes {BYTES / 1e6:.0f})"] if size > BYTES else []
    if not told:
        return ""
    fitting = min(CASES, max(int(len(run.results) * BYTES / max(size, 1) * 0.8), 1))
    fix = f"exportready report {junit.name} -o parts.xml --cases {fitting}, or --export-ready-shard=1/N"
    return f"{junit.name} has {' and '.join(told)}. Fix: {fix}"


def parts(run: Run, cases: int) -> Iterator[Run]:
    """``run`` in runs of at most ``cases`` results each; together they read back as ``run``."""
    for at in range(0, max(len(run.results), 1), cases):
        yield replace(run, results=run.results[at : at + cases], seconds=run.seconds if at == 0 else 0.0)
