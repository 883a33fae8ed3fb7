"""``exportready doctor``: can this machine do the job, and what is missing?"""

from __future__ import annotations

import argparse
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pytest_exportready.cli import Command

GIB = 2**30
DISK = 1.0
"""GiB that the reports, saved programs and child processes of a small model need."""


@dataclass(frozen=True)
class Row:
    """One thing looked at.

    told: what was found. fix: what to do when it is missing. needed: no job on the CPU without it.
    """

    name: str
    ok: bool
    told: str
    fix: str = ""
    needed: bool = True


@dataclass(frozen=True)
class Needed:
    """What a job needs of GPUs: how many, with so much memory free on each."""

    gpus: int
    gib: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--folder", type=Path, default=Path("exportready"), help="where the reports will go [exportready]"
    )
    parser.add_argument("--gpus", type=int, default=0, help="how many GPUs the job needs [0]")
    parser.add_argument(
        "--memory-gib", type=float, default=0, metavar="GIB", help="what must be free on each of these GPUs [0]"
    )
    parser.add_argument(
        "--junit", type=Path, help="write a JUnit file that says why, when this machine cannot: no fault of a model"
    )


def run(arguments: argparse.Namespace) -> int:
    gpus = Needed(arguments.gpus, arguments.memory_gib)
    rows = [*_software(), *_torch(gpus), *_machine(arguments.folder)]
    width = max(len(row.name) for row in rows)
    for row in rows:
        state = "ok" if row.ok else "missing" if row.needed else "absent"
        fix = "" if row.ok or not row.fix else f". Fix: {row.fix}"
        print(f"{row.name:<{width}}  {state:<7}  {row.told}{fix}")
    missing = [row.name for row in rows if row.needed and not row.ok]
    verdict = f"No: missing {', '.join(missing)}" if missing else "Yes"
    print(f"\nCan this machine run pytest --export-ready? {verdict}")
    if missing and arguments.junit:
        _write(arguments.junit, "; ".join(f"{row.name}: {row.told}" for row in rows if row.needed and not row.ok))
    return 1 if missing else 0


def _write(path: Path, why: str) -> None:
    from pytest_exportready.report.junit import write_junit
    from pytest_exportready.report.run import Run, TestResult

    message = f"{platform.node()} cannot do the job: {why}"
    result = TestResult("exportready doctor", "exportready.doctor", "machine", outcome="infra", message=message)
    try:
        write_junit(Run((result,), hostname=platform.node()), path)
    except OSError as error:
        print(f"exportready doctor: {path}: cannot be written: {error.strerror or error}", file=sys.stderr)


def _software() -> Iterator[Row]:
    told = f"{platform.python_version()}, {platform.platform()}"
    yield Row("python", sys.version_info >= (3, 10), told, "install Python 3.10 or later")
    for package in ("pytest", "pytest-exportready", "pytest-xdist", "junitparser", "jinja2"):
        found = _version(package)
        yield Row(package, bool(found), found or "not installed", f"python -m pip install {package}")
    compiler = next((found for found in map(shutil.which, ("g++", "clang++", "c++")) if found), "")
    told = compiler or "no compiler; only compiling with inductor needs it"
    yield Row("C++ compiler", bool(compiler), told, "install g++", needed=False)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _torch(wanted: Needed) -> Iterator[Row]:
    try:
        import torch
    except Exception as error:
        yield Row("torch", False, f"cannot be imported: {error}", "python -m pip install 'torch>=2.13'")
        return
    new = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2]) >= (2, 13)
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU only"
    yield Row("torch", new, f"{torch.__version__}, {build}", "python -m pip install 'torch>=2.13'")
    if not torch.cuda.is_available():
        told = f"none that this torch can use; {f'{wanted.gpus} needed' if wanted.gpus else 'cases run on the CPU'}"
        fix = "if there is one: its driver and a CUDA build of torch"
        yield Row("GPU", False, told, fix, needed=wanted.gpus > 0)
        return
    count = torch.cuda.device_count()
    if count < wanted.gpus:
        yield Row("GPUs", False, f"{count} of {wanted.gpus} needed", "another machine, or CUDA_VISIBLE_DEVICES")
    for index in range(count):
        needed = index < wanted.gpus
        name = torch.cuda.get_device_name(index)
        try:
            free, total = torch.cuda.mem_get_info(index)
        except RuntimeError as error:
            yield Row(f"GPU {index}", False, f"{name}: {error}", "free the GPU", needed)
            continue
        told = f"{name}, {free / GIB:.1f} of {total / GIB:.1f} GiB free"
        enough = not needed or free >= wanted.gib * GIB
        told += "" if enough else f", {wanted.gib:g} needed"
        yield Row(f"GPU {index}", enough, told, "end what uses it, or wait for it", needed)


def _machine(folder: Path) -> Iterator[Row]:
    existing = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.is_dir())
    for name, place in (("report folder", existing), ("temporary folder", Path(tempfile.gettempdir()))):
        try:
            with tempfile.TemporaryFile(dir=place):
                pass
        except OSError as error:
            told = f"{place}: {error.strerror or error}"
            yield Row(name, False, told, "give write access, or name another folder")
            continue
        free = shutil.disk_usage(place).free / GIB
        yield Row(name, free >= DISK, f"{place}, {free:.1f} GiB free", f"free {DISK:g} GiB on its disk")


COMMAND = Command("say whether this machine can do the job, and what is missing", add_arguments, run)
