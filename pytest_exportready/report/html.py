"""A Run as one self-contained HTML page: no network, everything escaped, complete without JavaScript."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from pytest_exportready.case.readiness import WORST_FIRST
from pytest_exportready.case.rules import all_rules
from pytest_exportready.report import case_text, embedded_data
from pytest_exportready.report.cause import causes
from pytest_exportready.report.files import write_atomically
from pytest_exportready.report.gc_pause import paused
from pytest_exportready.report.page_rows import MARKS, page_rows
from pytest_exportready.report.page_shell import SHARED, environment, shell, template_file
from pytest_exportready.report.rules_html import NAME as RULES, name_beside
from pytest_exportready.report.run import Run
from pytest_exportready.report.tabs import tabs
from pytest_exportready.report.units import duration

FIRST_CAUSES, CAUSES = 8, 25
"""How many causes are shown at first, and at most."""

LEADING = ("torch", "torch.git_version", "gpu", "driver", "python", "shard")
"""Properties that are always shown; the others are collapsed."""


def write_html(run: Run, path: Path) -> None:
    """Write the page.

    Raises:
        OSError: ``path`` cannot be written; an older file is still complete.
    """
    write_atomically(path, page(run, name_beside(path)).encode("utf-8", "replace"))


@paused()
def page(run: Run, rules: str = RULES) -> str:
    """Return the HTML text of the page: at most about 1 MiB, however many results there are.

    Args:
        rules: The page of rules that findings link to, in the same folder.
    """
    templates = _environment()
    rows = page_rows(run, templates.get_template("case.html").make_module({"rules": rules}))
    found, troubles = tabs(run)
    all_causes = sorted(causes(run.results), key=lambda one: one[1][0].outcome == "infra")
    style = f"{template_file(SHARED, 'page.css')}\n{template_file(SHARED, 'matrix.css')}"
    environment = run.environment
    leading = {key: environment[key] for key in LEADING if environment.get(key)}
    return templates.get_template("page.html").render(
        run=run,
        rows=rows,
        rules=rules,
        data=Markup(embedded_data.packed(rows.data(run))),
        rest=rows.plain_rest(),
        causes=all_causes[:CAUSES],
        number_of_causes=len(all_causes),
        first_causes=FIRST_CAUSES,
        tabs=found,
        troubles=troubles,
        leading=leading,
        others={key: value for key, value in environment.items() if key not in leading and value},
        **shell(style, template_file(SHARED, "page.js")),
        when=_when(run.timestamp),
    )


@cache
def _environment() -> Environment:
    filters: dict[str, Callable[..., Any]] = {
        "duration": duration,
        "excerpt": case_text.excerpt,
        "facts": case_text.facts,
        "shares": case_text.shares,
    }
    made = environment(SHARED, filters)
    made.globals.update(marks=MARKS, words=case_text.WORDS, order=WORST_FIRST)
    made.globals.update(command=case_text.command, behind=case_text.behind, known_codes=all_rules)
    return made


def _when(timestamp: str) -> str:
    try:
        return datetime.fromisoformat(timestamp).strftime("%Y-%m-%d %H:%M %z").strip()
    except ValueError:
        return timestamp
