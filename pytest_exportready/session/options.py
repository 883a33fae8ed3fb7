"""The name of the marker, and every command-line flag with its ini twin as one frozen Options."""

from __future__ import annotations

import os
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_exportready.report.shard import Shard

MARKER = "export_ready"
OPTIONS = pytest.StashKey["Options"]()

_VALUES = {
    "junit": ("exportready/junit.xml", "where to write the JUnit file"),
    "junit-form": ("full", "how to write it: full, or strict, which validates against Jenkins' junit-10.xsd"),
    "html": ("exportready/report.html", "where to write the HTML page"),
    "cache": ("off", "results of earlier runs of the same programs: off, read (found, not kept) or on"),
    "cache-dir": (".exportready_cache", "where these results are kept"),
    "cache-mib": ("256", "how large that folder may grow"),
    "confirm": ("0", "run each failure again up to this many times in fresh processes; one that passes is flaky"),
    "shard": ("", "run part I of N, as in 2/5: the same parts on every machine"),
    "shard-times": ("", "the JUnit file of an earlier run, for parts that take about as long each"),
    "reference-models": ("auto", "run the reference models: auto (when no paths are given), always or never"),
}


@dataclass(frozen=True)
class Options:
    """enabled: ``--export-ready`` was given. junit, html: absolute paths of the reports.

    cache: ``off``, ``read`` or ``on``; cache_dir: an absolute path; cache_bytes: the most it may hold.
    shard: the part of the cases that runs here; None for all of them. shard_times: an absolute path, None for none.
    reference_models: ``auto``, ``always`` or ``never``. junit_form: ``full`` or ``strict``.
    confirm: how often a failure is run again.
    """

    enabled: bool
    junit: Path
    html: Path
    cache: str
    cache_dir: Path
    cache_bytes: int
    shard: Shard | None
    shard_times: Path | None
    reference_models: str
    junit_form: str = "full"
    confirm: int = 0


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("export-ready", "export readiness")
    group.addoption(
        "--export-ready",
        action="store_true",
        default=None,
        help="run the export cases (functions marked export_ready) and the reference models only",
    )
    parser.addini("export_ready", "as --export-ready", type="bool", default=False)
    for name, (default, text) in _VALUES.items():
        group.addoption(f"--export-ready-{name}", default=None, metavar="VALUE", help=f"{text} [{default}]")
        parser.addini(f"export_ready_{name.replace('-', '_')}", f"as --export-ready-{name}", default=default)


def is_enabled(config: pytest.Config, arguments: Namespace) -> bool:
    """Whether ``--export-ready`` is among the parsed command-line ``arguments``, or set in the ini file."""
    given = arguments.export_ready
    return bool(config.getini("export_ready") if given is None else given)


def read_options(config: pytest.Config) -> Options:
    """Raises pytest.UsageError for a value that is not accepted, when the plugin is enabled."""

    def value(name: str) -> str:
        given = config.getoption(f"--export-ready-{name}")
        return str(config.getini(f"export_ready_{name.replace('-', '_')}") if given is None else given)

    enabled = is_enabled(config, config.option)
    where = config.invocation_params.dir
    options = Options(
        enabled=enabled,
        junit=where / value("junit"),
        html=where / value("html"),
        cache=value("cache"),
        cache_dir=where / value("cache-dir"),
        cache_bytes=_mebibytes(value("cache-mib")),
        shard=_shard(value("shard")) if enabled else None,
        shard_times=where / value("shard-times") if value("shard-times") else None,
        reference_models=value("reference-models"),
        junit_form=value("junit-form"),
        confirm=int(value("confirm")) if value("confirm").isdecimal() else -1,
    )
    if options.enabled:
        _check(options)
    return options


def _mebibytes(given: str) -> int:
    """Bytes; -1 for what is no positive number of MiB, to be refused when the plugin is enabled."""
    return int(given) << 20 if given.isdecimal() and int(given) else -1


def _shard(given: str) -> Shard | None:
    try:
        return Shard.parse(given) if given else None
    except ValueError as error:
        raise pytest.UsageError(f"--export-ready-shard={error}") from None


def _check(options: Options) -> None:
    if options.reference_models not in ("auto", "always", "never"):
        raise pytest.UsageError(
            f"--export-ready-reference-models={options.reference_models}: accepted are auto, always and never"
        )
    if options.junit_form not in ("full", "strict"):
        raise pytest.UsageError(f"--export-ready-junit-form={options.junit_form}: accepted are full and strict")
    if options.cache not in ("off", "read", "on"):
        raise pytest.UsageError(f"--export-ready-cache={options.cache}: accepted are off, read and on")
    if options.cache_bytes < 0:
        raise pytest.UsageError("--export-ready-cache-mib: accepted is a whole number of MiB, 1 at the least")
    if options.confirm < 0:
        raise pytest.UsageError("--export-ready-confirm: accepted is a whole number")
    if options.shard_times is not None and not options.shard_times.is_file():
        raise pytest.UsageError(f"--export-ready-shard-times={options.shard_times}: no such file")
    for name, path in (("junit", options.junit), ("html", options.html)):
        if os.path.exists(path) and not os.path.isfile(path):
            raise pytest.UsageError(f"--export-ready-{name}={path}: is not a file. Fix: name a file to write")
        above = next((folder for folder in path.parents if os.path.lexists(folder)), path.root)
        if not os.path.isdir(above):  # told now, not when every case has run
            raise pytest.UsageError(f"--export-ready-{name}={path}: {above} is no folder. Fix: name another path")
    if options.junit == options.html:
        raise pytest.UsageError(f"--export-ready-junit and --export-ready-html are both {options.html}: give two files")
