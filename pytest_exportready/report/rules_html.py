"""The documentation of all rules as one self-contained page beside the report, whose findings link to it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from markupsafe import Markup, escape

from pytest_exportready.case.rules import CODE_HEADINGS, all_rules
from pytest_exportready.case.rules_page import grouped_rules
from pytest_exportready.report.files import write_atomically
from pytest_exportready.report.page_shell import SHARED, environment, shell, template_file

NAME = "rules.html"

_CODE = re.compile(r"(`+)(.+?)\1", re.DOTALL)


def name_beside(report: Path) -> str:
    """Return the name of the page of rules in the folder of ``report``, which may have taken the usual one."""
    return NAME if report.name.lower() != NAME else "rule-documentation.html"


def write_rules(report: Path) -> None:
    """Write the page beside ``report``.

    Raises:
        OSError: The file cannot be written; an older one is still complete.
    """
    write_atomically(report.with_name(name_beside(report)), rules_html().encode())


@cache
def rules_html() -> str:
    """Return the HTML text: a section for each rule, with its code in lower case as its ``id``."""
    style = f"{template_file(SHARED, 'page.css')}\n{template_file(SHARED, 'rules.css')}"
    template = environment(SHARED, {"prose": _prose}).get_template("rules.html")
    return template.render(
        groups=grouped_rules(), rules=all_rules().values(), code_headings=CODE_HEADINGS, **shell(style)
    )


def _prose(text: str) -> Markup:
    """Escape a text, and set what stands between backticks as code."""
    return Markup(_CODE.sub(r"<code>\2</code>", str(escape(text))))
