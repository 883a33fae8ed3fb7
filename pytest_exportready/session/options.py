"""The name of the marker, and every command-line option with its ini option, as one frozen Options."""

from __future__ import annotations

import os
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_exportready.case.devices import ACCEPTED, AUTO, is_device
from pytest_exportready.report.shard import Shard

MARKER = "export_ready"
OPTIONS = pytest.StashKey["Options"]()

_VALUES = {
    "junit": ("exportready/junit.xml", "path of the JUnit file"),
    "junit-form": ("full", "form of the JUnit file: full, or strict, which is valid against junit-10.xsd of Jenkins"),
    "html": ("exportready/report.html", "path of the HTML page"),
    "cache": ("off", "reuse stage results of earlier runs: off, read (use the cache, do not write it) or on"),
    "cache-dir": (".exportready_cache", "folder of the cache"),
    "cache-mib": ("256", "largest size of the cache in MiB"),
    "confirm": ("0", "rerun each failure up to this many times in a new process; one that passes is flaky"),
    "shard": ("", "run shard I of N, such as 2/5; every machine makes the same shards"),
    "shard-times": ("", "JUnit file of an earlier run, to make shards of about the same duration"),
    "device": (
        "",
        "move every case to cpu, cuda or cuda:1 and judge it there, with cpu,cuda on both; auto: on a GPU if one can "
        "be used; by default cases are judged where they are built",
    ),
    "reference-models": ("auto", "run the reference models: auto (if no path is given), always or never"),
}


@dataclass(frozen=True)
class Options:
    """The options of a run; all paths are absolute."""

    enabled: bool  # with ``--export-ready``
    junit: Path
    html: Path
    cache: str  # ``off``, ``read`` or ``on``
    cache_dir: Path
    cache_bytes: int  # the largest size of the cache
    shard: Shard | None  # None: run all cases
    shard_times: Path | None
    reference_models: str  # ``auto``, ``always`` or ``never``
    junit_form: str = "full"  # or ``strict``
    confirm: int = 0  # how often a failure is run again
    devices: tuple[str, ...] = ()  # that every case is moved to; ``auto`` stands alone


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("export-ready", "export readiness")
    group.addoption(
        "--export-ready",
        action="store_true",
        default=None,
        help="run only export cases (functions marked `export_ready`) and the reference models",
    )
    parser.addini("export_ready", "same as --export-ready", type="bool", default=False)
    for name, (default, text) in _VALUES.items():
        group.addoption(f"--export-ready-{name}", default=None, metavar="VALUE", help=f"{text} [{default}]")
        parser.addini(f"export_ready_{name.replace('-', '_')}", f"same as --export-ready-{name}", default=default)


def is_enabled(config: pytest.Config, arguments: Namespace) -> bool:
    """Return whether ``--export-ready`` is given in ``arguments`` or in the ini file."""
    given = arguments.export_ready
    return bool(config.getini("export_ready") if given is None else given)


def read_options(config: pytest.Config) -> Options:
    """Return the options of the run.

    Raises:
        pytest.UsageError: a value is not accepted, and the plugin is enabled.
    """

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
        devices=tuple(dict.fromkeys(name.strip() for name in value("device").split(",") if name.strip())),
        confirm=int(value("confirm")) if value("confirm").isdecimal() else -1,
    )
    if options.enabled:
        _check(options)
    return options


def _mebibytes(given: str) -> int:
    """Return the size in bytes; -1 for a text that is not a positive number of MiB, which `_check` rejects."""
    return int(given) << 20 if given.isdecimal() and int(given) else -1


def _shard(given: str) -> Shard | None:
    try:
        return Shard.parse(given) if given else None
    except ValueError as error:
        raise pytest.UsageError(f"--export-ready-shard={error}") from None


def _check(options: Options) -> None:
    for name, value, accepted in (
        ("reference-models", options.reference_models, ("auto", "always", "never")),
        ("junit-form", options.junit_form, ("full", "strict")),
        ("cache", options.cache, ("off", "read", "on")),
    ):
        if value not in accepted:
            choices = f"{', '.join(accepted[:-1])} or {accepted[-1]}"
            raise pytest.UsageError(f"--export-ready-{name}={value} is not accepted. Fix: Use {choices}.")
    for name in options.devices if options.devices != (AUTO,) else ():
        if not is_device(name):
            fix = f"Use {ACCEPTED}, several separated by commas, or {AUTO} alone."
            raise pytest.UsageError(f"--export-ready-device={name} is not accepted. Fix: {fix}")
    if options.cache_bytes < 0:
        raise pytest.UsageError("--export-ready-cache-mib is not a whole number of MiB of at least 1.")
    if options.confirm < 0:
        raise pytest.UsageError("--export-ready-confirm is not a whole number.")
    if options.shard_times is not None and not options.shard_times.is_file():
        raise pytest.UsageError(f"--export-ready-shard-times={options.shard_times} does not exist.")
    for name, path in (("junit", options.junit), ("html", options.html)):
        if os.path.exists(path) and not os.path.isfile(path):
            raise pytest.UsageError(f"--export-ready-{name}={path} is not a file. Fix: Use the path of a file.")
        above = next((folder for folder in path.parents if os.path.lexists(folder)), path.root)
        if not os.path.isdir(above):  # reported now, not after every case has run
            raise pytest.UsageError(f"--export-ready-{name}={path}: {above} is not a directory. Fix: Use another path.")
    if options.junit == options.html:
        raise pytest.UsageError(
            f"--export-ready-junit and --export-ready-html are both {options.html}. Fix: Use two different paths."
        )
