"""``exportready night plan.json artifacts/ --history history/``: merge the legs of a night and compare it."""

from __future__ import annotations

import argparse
import os
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_exportready.cli import Command, fail

if TYPE_CHECKING:
    from pytest_exportready.report.github.artifacts import Gathered
    from pytest_exportready.report.nightly.comparison import Comparison


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", type=Path, help="the plan of the night, written by exportready plan")
    parser.add_argument("artifacts", type=Path, help="a folder with a subfolder for each leg")
    parser.add_argument("--history", type=Path, required=True, help="the folder of earlier nights; tonight is added")
    parser.add_argument("--channel", default="nightly", help="the torch to compare [nightly]")
    parser.add_argument("--expected", type=Path, metavar="FILE", help="expected failures, as TOML")
    parser.add_argument("--issue", action="store_true", help="open, update or close the one issue of this repository")
    parser.add_argument("--fail-on", choices=("new", "any", "never"), default="new", help="as in exportready compare")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("exportready"),
        help="the folder of HTML pages and JUnit files [exportready]",
    )


def run(arguments: argparse.Namespace) -> int:
    from pytest_exportready.report.github.artifacts import gather
    from pytest_exportready.report.github.history import keep
    from pytest_exportready.report.github.issue import IssueError
    from pytest_exportready.report.github.matrix import PlanError, read_plan
    from pytest_exportready.report.nightly.expected import ExpectationError, read_expected
    from pytest_exportready.report.rules_html import write_rules

    try:
        expected = read_expected(arguments.expected) if arguments.expected else ()
        gathered = list(gather(read_plan(arguments.plan), arguments.artifacts))
        _write(gathered, arguments.output)
        comparison = _compared(arguments, gathered, expected)
        _report(comparison, arguments.output)
        keep(gathered, arguments.history, datetime.now(timezone.utc))
        write_rules(arguments.output / "regress.html")
        if arguments.issue:
            _update_issue(comparison)
    except (PlanError, ExpectationError, IssueError) as error:
        return fail("night", error)
    except OSError as error:
        return fail("night", f"{error.filename} cannot be written: {error.strerror or error}")
    return comparison.status(arguments.fail_on)


def _write(gathered: list[Gathered], output: Path) -> None:
    """Write the JUnit file of each channel and runner, and an HTML page for each channel."""
    from pytest_exportready.report.html import write_html
    from pytest_exportready.report.junit import write_junit
    from pytest_exportready.report.run import merged

    for one in gathered:
        path = output / one.channel / f"{one.runner}.xml"
        write_junit(one.run, path)
        print(f"{path}: {one.run.verdict}")
        for leg in one.lost:
            fail("night", f"leg {leg} is missing or cannot be read")
    for channel in dict.fromkeys(one.channel for one in gathered):
        write_html(merged(one.run for one in gathered if one.channel == channel), output / f"{channel}.html")


def _compared(arguments: argparse.Namespace, gathered: list[Gathered], expected: object) -> Comparison:
    """Compare the channel with the nights before, and with the last good torch and a release if they ran."""
    from pytest_exportready.report.github.history import nights
    from pytest_exportready.report.nightly.compare import compare
    from pytest_exportready.report.nightly.night import Night, read_night

    def tonight(channel: str) -> Night | None:
        runs = tuple(one.run for one in gathered if one.channel == channel)
        return Night(channel, runs) if runs else None

    channels = [one.channel for one in gathered]
    judged = arguments.channel if arguments.channel in channels else channels[0]
    before = [read_night(folder) for folder in nights(arguments.history, judged)]
    last = tonight("last-good") or (before.pop() if before else Night("none", ()))
    stable = tonight("stable") if judged != "stable" else None
    return compare(last, tonight(judged), stable=stable, history=before, expected=expected)  # type: ignore[arg-type]


def _report(comparison: Comparison, output: Path) -> None:
    from pytest_exportready.cli.summary import write_summary
    from pytest_exportready.report.github.nightly_summary import commands, nightly_summary
    from pytest_exportready.report.junit import write_junit
    from pytest_exportready.report.nightly.junit_results import as_run
    from pytest_exportready.report.nightly.page import write_page

    write_page(comparison, output / "regress.html", "")
    write_junit(as_run(comparison), output / "regress.xml")
    write_summary(nightly_summary(comparison))
    if "GITHUB_ACTIONS" in os.environ:
        print("\n".join(commands(comparison)))
    print(comparison.verdict)


def _update_issue(comparison: Comparison) -> None:
    from pytest_exportready.report.github.issue import Issues
    from pytest_exportready.report.github.nightly_summary import nightly_summary

    failing = comparison.conclusion != "no"
    title, body = f"Export readiness: {comparison.verdict}", nightly_summary(comparison)
    print(f"issue: {Issues.of_job(os.environ).update(failing, title, body)}")


COMMAND = Command("merge the results of the legs of a night, and compare them with earlier nights", add_arguments, run)
