"""``exportready compare LAST TONIGHT``: is anything new broken, whose is it, and what is slower?"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pytest_exportready.cli import Command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("last", type=Path, help="the night before: a JUnit file, or a folder of shards and legs")
    parser.add_argument("tonight", type=Path, help="tonight: a JUnit file, or a folder of shards and legs")
    parser.add_argument("--stable", type=Path, metavar="PATH", help="tonight's commit under a released torch")
    parser.add_argument(
        "--baseline-history",
        type=Path,
        nargs="+",
        default=[],
        metavar="DIR",
        help="earlier nights in any order: a folder each, or files beside each other",
    )
    parser.add_argument("--expected", type=Path, metavar="FILE", help="expected failures, as TOML")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("regress.html"), help="the page to write [regress.html]"
    )
    parser.add_argument("--junit", type=Path, metavar="FILE", help="also write the comparison as a JUnit file")
    parser.add_argument(
        "--fail-on",
        choices=("new", "any", "never"),
        default="new",
        help="exit with 1 for new causes, for any failure that is not expected, or never [new]; 2: cannot be told",
    )


def run(arguments: argparse.Namespace) -> int:
    from pytest_exportready.report.junit import write_junit
    from pytest_exportready.report.nightly.commands import rebaseline
    from pytest_exportready.report.nightly.compare import compare
    from pytest_exportready.report.nightly.expected import ExpectationError, read_expected
    from pytest_exportready.report.nightly.junit_results import as_run
    from pytest_exportready.report.nightly.night import read_history, read_night
    from pytest_exportready.report.nightly.page import write_page
    from pytest_exportready.report.nightly.terminal_lines import lines

    try:
        expected = read_expected(arguments.expected) if arguments.expected else ()
    except ExpectationError as error:
        return _refuse(str(error))
    comparison = compare(
        read_night(arguments.last),
        read_night(arguments.tonight),
        stable=read_night(arguments.stable) if arguments.stable else None,
        history=read_history(arguments.baseline_history),
        expected=expected,
    )
    judged = any(change.now is not None for change in comparison.changes)
    command = rebaseline(arguments.last, arguments.tonight) if judged else ""
    try:
        write_page(comparison, arguments.output, command)
        if arguments.junit:
            write_junit(as_run(comparison), arguments.junit)
    except OSError as error:
        return _refuse(f"{error.filename or arguments.output}: cannot be written: {error.strerror or error}")
    for line in lines(comparison):
        print(line)
    told = [f"to take tonight as the new baseline: {command}"] if command else []
    print("\n".join(["", f"page: {arguments.output}", *told, comparison.verdict]))
    return comparison.status(arguments.fail_on)


def _refuse(message: str) -> int:
    print(f"exportready compare: {message}", file=sys.stderr)
    return 2


COMMAND = Command("compare two nights: what is new, whose it is, what is slower", add_arguments, run)
