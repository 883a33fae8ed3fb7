"""``exportready summary junit.xml ...``: write the job summary and annotations of GitHub Actions."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from pytest_exportready.cli import Command, fail


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "junit", nargs="+", type=Path, help="JUnit files. If a case occurs in several, its worst result is used"
    )


def run(arguments: argparse.Namespace) -> int:
    from pytest_exportready.report.github.annotations import commands
    from pytest_exportready.report.github.summary import summary
    from pytest_exportready.report.junit import JUnitError, read_junit

    try:
        run = read_junit(*arguments.junit)
    except JUnitError as error:
        return fail("summary", error)
    write_summary(summary(run))
    if "GITHUB_ACTIONS" in os.environ:
        print("\n".join(commands(run)))
    return 0


def write_summary(text: str) -> None:
    """Append to the summary of the step, or print the text outside GitHub Actions."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        print(text)
        return
    with open(path, "a", encoding="utf-8") as summary:
        summary.write(text)


COMMAND = Command("write the job summary and the annotations of GitHub Actions", add_arguments, run)
