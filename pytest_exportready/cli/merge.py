"""``exportready merge plan.json artifacts/ -o night/``: what the legs of a night left, and which left nothing."""

from __future__ import annotations

import argparse
import sys
from datetime import datetime, timezone
from pathlib import Path

from pytest_exportready.cli import Command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", type=Path, help="the plan of the night, as exportready plan wrote it")
    parser.add_argument("artifacts", type=Path, help="a folder with one folder for each leg")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("night"), help="writes CHANNEL/RUNNER.xml in this folder [night]"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="HISTORY", help="also add the night to this folder of the last two weeks"
    )


def run(arguments: argparse.Namespace) -> int:
    from pytest_exportready.github.gathered import gather
    from pytest_exportready.github.kept import keep
    from pytest_exportready.github.legs import PlanError, read_plan
    from pytest_exportready.report.junit import write_junit

    try:
        gathered = list(gather(read_plan(arguments.plan), arguments.artifacts))
        for one in gathered:
            path = arguments.output / one.channel / f"{one.runner}.xml"
            write_junit(one.run, path)
            print(f"{path}: {one.run.verdict}")
        if arguments.keep:
            keep(gathered, arguments.keep, datetime.now(timezone.utc))
    except PlanError as error:
        print(f"exportready merge: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"exportready merge: {error.filename}: cannot be written: {error.strerror or error}", file=sys.stderr)
        return 2
    lost = [leg for one in gathered for leg in one.lost]
    for leg in lost:
        print(f"exportready merge: leg {leg} is missing or cannot be read", file=sys.stderr)
    return 1 if lost else 0


COMMAND = Command("gather what the legs of a night left; a leg that left nothing is told", add_arguments, run)
