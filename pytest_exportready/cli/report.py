"""``exportready report junit.xml ... -o report.html``: render JUnit files, or merge them into one."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pytest_exportready.cli import Command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("junit", nargs="+", type=Path, help="JUnit files; of several, the worst counts")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("report.html"),
        help="what to write: a page (.html) or one merged JUnit file (.xml) [report.html]",
    )


def run(arguments: argparse.Namespace) -> int:
    from pytest_exportready.report.html import write_html
    from pytest_exportready.report.junit import JUnitError, read_junit, write_junit

    writers = {".html": write_html, ".htm": write_html, ".xml": write_junit}
    write = writers.get(arguments.output.suffix.lower())
    if write is None:
        return _refuse(f"{arguments.output}: accepted endings are .html and .xml")
    try:
        run = read_junit(*arguments.junit)
        write(run, arguments.output)
    except JUnitError as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(f"{arguments.output}: cannot be written: {error.strerror or error}")
    unread = [result for result in run.results if result.classname == "exportready.report"]
    for result in unread:
        print(f"exportready report: {result.message}", file=sys.stderr)
    print(f"{run.verdict}\n{arguments.output}")
    return 1 if unread else 0


def _refuse(message: str) -> int:
    print(f"exportready report: {message}", file=sys.stderr)
    return 2


COMMAND = Command("make a page of JUnit files, or merge them", add_arguments, run)
