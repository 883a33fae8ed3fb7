"""``exportready doctor``: check whether this machine can run ``pytest --export-ready``."""

from __future__ import annotations

import argparse
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pytest_exportready.case.explained import with_fix
from pytest_exportready.cli import Command, fail
from pytest_exportready.cli._doctor_gpus import Needed, gpu_rows
from pytest_exportready.cli._doctor_row import GIB, Row

INSTALL_TORCH = "Run `python -m pip install 'torch>=2.13'`."
DISK = 1.0
"""GiB of disk space for the reports, saved programs and child processes of a small model."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--folder", type=Path, default=Path("exportready"), help="the folder of the reports [exportready]"
    )
    parser.add_argument("--gpus", type=int, default=0, help="number of GPUs that the job needs [0]")
    parser.add_argument(
        "--memory-gib", type=float, default=0, metavar="GIB", help="free memory that the job needs on each GPU [0]"
    )
    parser.add_argument(
        "--junit", type=Path, help="if the machine is unsuitable, write a JUnit file with an infrastructure error"
    )


def run(arguments: argparse.Namespace) -> int:
    gpus = Needed(arguments.gpus, arguments.memory_gib)
    rows = [*_software(), *_torch(), *gpu_rows(gpus), *_machine(arguments.folder)]
    width = max(len(row.name) for row in rows)
    for row in rows:
        print(f"{row.name:<{width}}  {row.state:<7}  {with_fix(row.found, '' if row.ok else row.fix)}")
    missing = [row.name for row in rows if row.needed and not row.ok]
    verdict = f"No: missing {', '.join(missing)}" if missing else "Yes"
    print(f"\nCan this machine run pytest --export-ready? {verdict}")
    if missing and arguments.junit:
        _write(arguments.junit, "; ".join(f"{row.name}: {row.found}" for row in rows if row.needed and not row.ok))
    return 1 if missing else 0


def _write(path: Path, why: str) -> None:
    from pytest_exportready.report.junit import write_junit
    from pytest_exportready.report.run import Run, TestResult

    message = f"{platform.node()} is unsuitable: {why}"
    result = TestResult("exportready doctor", "exportready.doctor", "machine", outcome="infra", message=message)
    try:
        write_junit(Run((result,), hostname=platform.node()), path)
    except OSError as error:
        fail("doctor", f"{path} cannot be written: {error.strerror or error}")


def _software() -> Iterator[Row]:
    python = f"{platform.python_version()}, {platform.platform()}"
    yield Row("python", sys.version_info >= (3, 10), python, "Install Python 3.10 or later.")
    for package in ("pytest", "pytest-exportready", "pytest-xdist", "junitparser", "jinja2"):
        found = _version(package)
        yield Row(package, bool(found), found or "not installed", f"Run `python -m pip install {package}`.")
    compiler = next((found for found in map(shutil.which, ("g++", "clang++", "c++")) if found), "")
    found = compiler or "not found; only compilation with inductor needs it"
    yield Row("C++ compiler", bool(compiler), found, "Install g++.", needed=False)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _torch() -> Iterator[Row]:
    try:
        import torch
    except Exception as error:
        yield Row("torch", False, f"cannot be imported: {error}", INSTALL_TORCH)
        return
    new = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2]) >= (2, 13)
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU only"
    yield Row("torch", new, f"{torch.__version__}, {build}", INSTALL_TORCH)


def _machine(folder: Path) -> Iterator[Row]:
    existing = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.is_dir())
    for name, place in (("report folder", existing), ("temporary folder", Path(tempfile.gettempdir()))):
        try:
            with tempfile.TemporaryFile(dir=place):
                pass
        except OSError as error:
            problem = f"{place}: {error.strerror or error}"
            yield Row(name, False, problem, "Give write access, or choose another folder.")
            continue
        free = shutil.disk_usage(place).free / GIB
        yield Row(name, free >= DISK, f"{place}, {free:.1f} GiB free", f"Free {DISK:g} GiB on its disk.")


COMMAND = Command("check whether this machine can run pytest --export-ready", add_arguments, run)
