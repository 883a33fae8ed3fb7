"""``exportready shard 2/5 [--times last/junit.xml] [pytest arguments]``: run one part of the cases."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from pytest_exportready.cli import Command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--times", type=Path, help="JUnit file of an earlier run, to make parts of about equal duration"
    )
    parser.add_argument("shard", metavar="I/N", help="the part to run, such as 2/5")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="arguments of pytest --export-ready")


def run(arguments: argparse.Namespace) -> int:
    times = [] if arguments.times is None else [f"--export-ready-shard-times={arguments.times}"]
    given = arguments.arguments[1:] if arguments.arguments[:1] == ["--"] else arguments.arguments
    chosen = ["--export-ready", f"--export-ready-shard={arguments.shard}"]
    pytest = [sys.executable, "-m", "pytest"]  # a new process, because pytest warns if its plugins are imported already
    os.execv(sys.executable, [*pytest, *chosen, *times, *given])


COMMAND = Command("run one part of the cases; N parts on N machines run each case once", add_arguments, run)
