"""Every command-line flag of the plugin and its ini twin, as one frozen Options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

OPTIONS = pytest.StashKey["Options"]()

_VALUES = {
    "junit": ("exportready/junit.xml", "where to write the JUnit file"),
    "html": ("exportready/report.html", "where to write the HTML page"),
    "reference-models": ("auto", "run the reference models: auto (when no paths are given), always or never"),
}


@dataclass(frozen=True)
class Options:
    """enabled: ``--export-ready`` was given. junit, html: absolute paths of the reports.

    reference_models: ``auto``, ``always`` or ``never``.
    """

    enabled: bool
    junit: Path
    html: Path
    reference_models: str


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("export-ready", "export readiness")
    group.addoption(
        "--export-ready",
        action="store_true",
        default=None,
        help="run the export cases (functions marked export_ready) and the reference models, and nothing else",
    )
    parser.addini("export_ready", "as --export-ready", type="bool", default=False)
    for name, (default, text) in _VALUES.items():
        group.addoption(f"--export-ready-{name}", default=None, metavar="VALUE", help=f"{text} [{default}]")
        parser.addini(f"export_ready_{name.replace('-', '_')}", f"as --export-ready-{name}", default=default)


def read_options(config: pytest.Config) -> Options:
    """Raises pytest.UsageError for a value that is not accepted."""

    def value(name: str) -> str:
        given = config.getoption(f"--export-ready-{name}")
        return str(config.getini(f"export_ready_{name.replace('-', '_')}") if given is None else given)

    reference_models = value("reference-models")
    if reference_models not in ("auto", "always", "never"):
        raise pytest.UsageError(
            f"--export-ready-reference-models={reference_models}: accepted are auto, always and never"
        )
    enabled = config.getoption("--export-ready")
    where = config.invocation_params.dir
    return Options(
        enabled=bool(config.getini("export_ready") if enabled is None else enabled),
        junit=where / value("junit"),
        html=where / value("html"),
        reference_models=reference_models,
    )
