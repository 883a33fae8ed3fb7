"""A Run as one self-contained page: no script, no network, everything escaped, for day and night."""

from __future__ import annotations

import json
import shlex
from base64 import b64encode
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pytest_exportready.report import budget
from pytest_exportready.report.files import write_atomically
from pytest_exportready.report.run import WORST_FIRST, Run, TestResult

DETAILED = 1_000
"""With more results than this, those that need no attention get a row only."""

MARKS = {"passed": "✓", "failed": "✗", "infra": "!", "skipped": "\N{EN DASH}", "xfailed": "✗", "missing": "?"}
WORDS = {
    "passed": "passed",
    "failed": "failed",
    "infra": "not judged (the runner's fault)",
    "skipped": "skipped",
    "xfailed": "failed as expected",
    "missing": "missing",
}


def write_html(run: Run, path: Path) -> None:
    """Write the page. Raises OSError when ``path`` cannot be written; an older file is then still whole."""
    write_atomically(Path(path), page(run).encode("utf-8", "replace"))


def page(run: Run) -> str:
    """The HTML text of the page."""
    style = f":root{{--stages:{len(run.stages)}}}\n{_style()}"
    digest = b64encode(sha256(style.encode()).digest()).decode()
    return (
        _environment()
        .get_template("page.html")
        .render(
            run=run,
            style=Markup(style),
            policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
            when=_when(run.timestamp),
            detailed=len(run.results) <= DETAILED,
            mixed=len({_attention(result) for result in run.results}) == 2,
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("pytest_exportready.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(marks=MARKS, words=WORDS, command=_command, order=WORST_FIRST)
    environment.globals.update(attention=_attention, reason=_reason)
    environment.filters.update(facts=_facts, duration=_duration)
    return environment


@cache
def _style() -> str:
    return (files("pytest_exportready.report") / "templates" / "page.css").read_text(encoding="utf-8")


def _attention(result: TestResult) -> bool:
    """Whether somebody should look at it: it is not green, or there are warnings."""
    if result.outcome != "passed" or result.earlier:
        return True
    findings = result.readiness.findings if result.readiness else ()
    return not result.proved or any(finding.severity != "info" for finding in findings)


def _reason(result: TestResult) -> str:
    """The line under a case that is not green."""
    if result.outcome == "passed":
        if result.earlier:
            return f"passed only at attempt {len(result.earlier) + 1}"
        return result.message or ("" if result.proved else "passed without a record that proves it")
    if result.outcome == "failed" and result.readiness and result.readiness.errors:
        first = result.readiness.errors[0]
        return f"{first.place}: {first.message}"
    if result.outcome in ("skipped", "xfailed", "missing"):
        return f"{WORDS[result.outcome]}: {result.message}" if result.message else WORDS[result.outcome]
    return result.message or WORDS[result.outcome]


def _command(result: TestResult) -> str:
    return f"pytest --export-ready {shlex.quote(result.nodeid)}"


def _facts(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in facts.items():
        yield key.replace("_", " "), budget.line(_told(value), 300)


def _told(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list) and not any(isinstance(item, (dict, list)) for item in value):
        return ", ".join(map(_told, value)) or "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _when(timestamp: str) -> str:
    try:
        return datetime.fromisoformat(timestamp).strftime("%Y-%m-%d %H:%M %z").strip()
    except ValueError:
        return timestamp
