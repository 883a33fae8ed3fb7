"""The shell of the self-contained pages: templates that escape, and a policy that allows only our style and script."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

SHARED = "pytest_exportready.report"
"""The package whose templates every page may use."""


def environment(package: str, filters: Mapping[str, Callable[..., Any]]) -> Environment:
    """Return an environment of the templates of ``package``, and of the shared ones."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(SHARED)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(filters)
    return made


def shell(style: str, script: str = "") -> dict[str, str]:
    """Return the values for ``shell.html``: style, script, and the policy that allows nothing else."""
    scripts = f"script-src {_digest(script)}; " if script else ""
    policy = f"default-src 'none'; style-src {_digest(style)}; {scripts}base-uri 'none'; form-action 'none'"
    return {"style": Markup(style), "script": Markup(script), "policy": policy}


@cache
def template_file(package: str, name: str) -> str:
    """Return the text of a file beside the templates of ``package``."""
    return (files(package) / "templates" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """Return the hash of a style or script as a Content-Security-Policy writes it."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
