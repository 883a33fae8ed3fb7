"""``exportready report junit.xml ... -o report.html``: make an HTML page of JUnit files, or merge them."""

from __future__ import annotations

import argparse
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_exportready.cli import Command, fail

if TYPE_CHECKING:
    from pytest_exportready.report.run import Run

FORMS = ("full", "strict")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "junit",
        nargs="+",
        type=Path,
        help="JUnit files or folders. If a case occurs in several, its worst result is used",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("report.html"),
        help="the file to write: an HTML page (.html) or a merged JUnit file (.xml) [report.html]",
    )
    parser.add_argument(
        "--form",
        choices=FORMS,
        default="full",
        help="form of the JUnit file; strict is valid by the schema of Jenkins [full]",
    )
    parser.add_argument(
        "--cases", type=int, default=0, help="split the JUnit file into NAME-1.xml ... of at most this many cases"
    )


def run(arguments: argparse.Namespace) -> int:
    from pytest_exportready.report.html import write_html
    from pytest_exportready.report.junit import JUnitError, read_junit
    from pytest_exportready.report.rules_html import write_rules

    output = arguments.output
    if output.suffix.lower() not in (".html", ".htm", ".xml"):
        return fail("report", f"the suffix of {output} is not .html or .xml")
    if arguments.cases < 0:
        return fail("report", f"--cases {arguments.cases} is negative")
    try:
        run = read_junit(*chain.from_iterable(map(_files, arguments.junit)))
        if output.suffix.lower() == ".xml":
            written = _write_junit(run, output, arguments.form, arguments.cases)
        else:
            write_html(run, output)
            write_rules(output)
            written = [output]
    except JUnitError as error:
        return fail("report", error)
    except OSError as error:
        return fail("report", f"{error.filename or output} cannot be written: {error.strerror or error}")
    unread = [result for result in run.results if result.classname == "exportready.report"]
    for result in unread:
        fail("report", result.message)
    print("\n".join([run.verdict, *map(str, written)]))
    return 1 if unread else 0


def _files(path: Path) -> list[Path]:
    """Return the file, or the JUnit files in a folder; a folder without any fails when it is read."""
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


COMMAND = Command("make an HTML page of JUnit files, or merge them", add_arguments, run)
