"""``exportready report junit.xml ... -o report.html``: render JUnit files, or merge them into one."""

from __future__ import annotations

import argparse
import sys
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_exportready.cli import Command

if TYPE_CHECKING:
    from pytest_exportready.report.run import Run

FORMS = ("full", "strict")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "junit", nargs="+", type=Path, help="JUnit files, or folders of them; of several, the worst counts"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("report.html"),
        help="what to write: a page (.html) or one merged JUnit file (.xml) [report.html]",
    )
    parser.add_argument("--form", choices=FORMS, default="full", help="of the JUnit file; strict validates [full]")
    parser.add_argument(
        "--cases", type=int, default=0, help="write JUnit files of at most so many cases: NAME-1.xml ..."
    )


def run(arguments: argparse.Namespace) -> int:
    from pytest_exportready.report.junit import JUnitError, read_junit

    output = arguments.output
    if output.suffix.lower() not in (".html", ".htm", ".xml"):
        return _refuse(f"{output}: accepted endings are .html and .xml")
    if arguments.cases < 0:
        return _refuse(f"--cases {arguments.cases}: accepted is a whole number, 1 at the least")
    complete = True
    try:
        run = read_junit(*chain.from_iterable(map(_files, arguments.junit)))
        if output.suffix.lower() == ".xml":
            written = _write_junit(run, output, arguments.form, arguments.cases)
        else:
            complete = write_pages(run, output)
            written = [output]
    except JUnitError as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(f"{output}: cannot be written: {error.strerror or error}")
    unread = [result for result in run.results if result.classname == "exportready.report"]
    for result in unread:
        print(f"exportready report: {result.message}", file=sys.stderr)
    print("\n".join([run.verdict, *map(str, written)]))
    return 0 if complete and not unread else 1


def write_pages(run: Run, report: Path) -> bool:
    """Write the report and the page of rules beside it; print why there are no rules where they cannot be written.

    Returns:
        Whether both are written.

    Raises:
        OSError: The report cannot be written.
    """
    from pytest_exportready.report.html import write_html
    from pytest_exportready.report.rules_html import write_rules

    write_html(run, report)
    try:
        write_rules(report)
    except OSError as error:
        message = f"the page of rules beside {report} cannot be written: {error.strerror or error}"
        print(f"exportready: {message}", file=sys.stderr)
        return False
    return True


def _files(path: Path) -> list[Path]:
    """A file itself, and what a folder holds; a folder without any is refused by its name when it is read."""
    return (sorted(path.rglob("*.xml")) or [path]) if path.is_dir() else [path]


def _write_junit(run: Run, output: Path, form: str, cases: int) -> list[Path]:
    from pytest_exportready.report.ci_limits import parts
    from pytest_exportready.report.junit import write_junit

    runs = list(parts(run, cases)) if cases else [run]
    numbered = [output.with_name(f"{output.stem}-{number}{output.suffix}") for number in range(1, len(runs) + 1)]
    paths = numbered if len(runs) > 1 else [output]
    for part, path in zip(runs, paths, strict=True):
        write_junit(part, path, form)
    return paths


def _refuse(message: str) -> int:
    print(f"exportready report: {message}", file=sys.stderr)
    return 2


COMMAND = Command("make a page of JUnit files, or merge them", add_arguments, run)
