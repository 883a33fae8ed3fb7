"""A Run as one self-contained page: no network, everything escaped, whole without JavaScript, for day and night."""

from __future__ import annotations

from base64 import b64encode
from datetime import datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pytest_exportready.report import case_text, embedded_data
from pytest_exportready.report.cause import causes
from pytest_exportready.report.files import write_atomically
from pytest_exportready.report.gc_pause import paused
from pytest_exportready.report.page_rows import MARKS, page_rows
from pytest_exportready.report.run import WORST_FIRST, Run
from pytest_exportready.report.table import tabs
from pytest_exportready.report.units import duration

FIRST_CAUSES, CAUSES = 8, 25
"""Causes that are shown, and those that are there at the most."""

LEADING = ("torch", "torch.git_version", "gpu", "driver", "python", "shard")
"""Properties that stand above the fold; the others are a click away."""


def write_html(run: Run, path: Path) -> None:
    """Write the page. Raises OSError when ``path`` cannot be written; an older file is then still whole."""
    write_atomically(Path(path), page(run).encode("utf-8", "replace"))


@paused()
def page(run: Run) -> str:
    """The HTML text of the page: at most about 1 MiB, however many results there are."""
    environment = _environment()
    rows = page_rows(run, environment.get_template("case.html"))
    found, troubles = tabs(run)
    all_causes = sorted(causes(run.results), key=lambda one: one[1][0].outcome == "infra")
    style, script = _style(), _file("page.js")
    environs = run.environment
    leading = {key: environs[key] for key in LEADING if environs.get(key)}
    return environment.get_template("page.html").render(
        run=run,
        rows=rows,
        data=Markup(embedded_data.packed(rows.data(run))),
        rest=rows.plain_rest(),
        causes=all_causes[:CAUSES],
        number_of_causes=len(all_causes),
        first_causes=FIRST_CAUSES,
        tabs=found,
        troubles=troubles,
        leading=leading,
        others={key: value for key, value in environs.items() if key not in leading and value},
        style=Markup(style),
        script=Markup(script),
        policy=f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; "
        "base-uri 'none'; form-action 'none'",
        when=_when(run.timestamp),
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
    environment.globals.update(marks=MARKS, words=case_text.WORDS, order=WORST_FIRST)
    environment.globals.update(command=case_text.command, behind=case_text.behind)
    environment.filters.update(facts=case_text.facts, duration=duration, excerpt=case_text.excerpt)
    environment.filters.update(shares=case_text.shares)
    return environment


def _style() -> str:
    return f"{_file('page.css')}\n{_file('matrix.css')}"


@cache
def _file(name: str) -> str:
    return (files("pytest_exportready.report") / "templates" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """As a Content-Security-Policy names the one style, or script, that it lets in."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _when(timestamp: str) -> str:
    try:
        return datetime.fromisoformat(timestamp).strftime("%Y-%m-%d %H:%M %z").strip()
    except ValueError:
        return timestamp
