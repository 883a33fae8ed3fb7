"""``exportready compare LAST TONIGHT``: find new failures, what they are due to, and slowdowns."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_exportready.cli import Command, fail


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("last", type=Path, help="the previous night: a JUnit file, or a folder of shards and legs")
    parser.add_argument("tonight", type=Path, help="tonight: a JUnit file, or a folder of shards and legs")
    parser.add_argument("--stable", type=Path, metavar="PATH", help="the same commit under a released torch")
    parser.add_argument(
        "--baseline-history",
        type=Path,
        nargs="+",
        default=[],
        metavar="DIR",
        help="folders of earlier nights in any order: a subfolder for each night, or files",
    )
    parser.add_argument("--expected", type=Path, metavar="FILE", help="expected failures, as TOML")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("regress.html"), help="the HTML page to write [regress.html]"
    )
    parser.add_argument("--junit", type=Path, metavar="FILE", help="also write the comparison as a JUnit file")
    parser.add_argument(
        "--fail-on",
        choices=("new", "any", "never"),
        default="new",
        help="when to exit with status 1: on new causes, on any unexpected failure, or never [new]. "
        "Status 2 means inconclusive",
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
        return fail("compare", error)
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
        return fail("compare", f"{error.filename or arguments.output} cannot be written: {error.strerror or error}")
    for line in lines(comparison):
        print(line)
    baseline = [f"to make tonight the new baseline: {command}"] if command else []
    print("\n".join(["", f"HTML: {arguments.output}", *baseline, comparison.verdict]))
    return comparison.status(arguments.fail_on)


COMMAND = Command("compare two nights: new failures, what they are due to, slowdowns", add_arguments, run)
