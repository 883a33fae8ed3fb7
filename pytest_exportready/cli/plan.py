"""``exportready plan runners.json --torch stable --torch nightly --shards 4``: plan the legs of a night."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_exportready.cli import Command, fail

if TYPE_CHECKING:
    from pytest_exportready.report.github.matrix import Channel, Leg

STABLE = "https://download.pytorch.org/whl/{cuda}"
NIGHTLY = "https://download.pytorch.org/whl/nightly/{cuda}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runners", type=Path, help="a JSON file that lists the machines")
    parser.add_argument(
        "--torch",
        action="append",
        required=True,
        metavar="CHANNEL[=VERSION]",
        help="a torch to run with. stable and nightly are resolved once for all legs; last-good is from --history",
    )
    parser.add_argument("--shards", type=int, default=1, help="number of parts of each run [1]")
    parser.add_argument("--history", type=Path, help="the folder of earlier nights, for last-good")
    parser.add_argument("--stable-index", default=STABLE, help=f"[{STABLE}]")
    parser.add_argument("--nightly-index", default=NIGHTLY, help=f"[{NIGHTLY}]")
    parser.add_argument("-o", "--output", type=Path, default=Path("plan.json"), help="the file to write [plan.json]")


def run(arguments: argparse.Namespace) -> int:
    from pytest_exportready.report.files import write_atomically
    from pytest_exportready.report.github.matrix import PlanError, matrix, planned, read_runners
    from pytest_exportready.report.github.resolve_torch import WheelError

    try:
        if arguments.shards < 1:
            raise PlanError(f"--shards {arguments.shards} is less than 1")
        runners = read_runners(arguments.runners)
        channels = list(_channels(arguments, runners[0].cuda))
        if not channels:
            raise PlanError(
                "no torch to run with: last-good needs a history with a night in which every case has a verdict"
            )
        legs = [_with_times(leg, arguments.history) for leg in planned(runners, channels, arguments.shards)]
        text = matrix(legs)
        write_atomically(arguments.output, text.encode())
        if "GITHUB_OUTPUT" in os.environ:
            with open(os.environ["GITHUB_OUTPUT"], "a", encoding="utf-8") as output:
                output.write(f"matrix={text}\n")
    except (PlanError, WheelError) as error:
        return fail("plan", error)
    except OSError as error:
        return fail("plan", f"{error.filename or arguments.output} cannot be written: {error.strerror or error}")
    for leg in legs:
        print(f"{leg.name}: torch {leg.torch} on {', '.join(leg.labels)}")
    return 0


def _with_times(leg: Leg, history: Path | None) -> Leg:
    from pytest_exportready.report.github.history import times

    return replace(leg, times=times(history, leg.channel, leg.runner)) if history else leg


def _channels(arguments: argparse.Namespace, cuda: str) -> Iterator[Channel]:
    from pytest_exportready.report.github.history import last_good
    from pytest_exportready.report.github.matrix import Channel
    from pytest_exportready.report.github.resolve_torch import resolve

    indexes = {"nightly": arguments.nightly_index, "last-good": arguments.nightly_index}
    for given in dict.fromkeys(arguments.torch):
        name, _, version = given.partition("=")
        index = indexes.get(name, arguments.stable_index)
        if name == "last-good" and not version:
            version = last_good(arguments.history) if arguments.history else ""
            if not version:
                fail("plan", "last-good is left out: in no night of the history does every case have a verdict")
                continue
        if not version:
            version = resolve("torch", index.replace("{cuda}", cuda), pre=name == "nightly")
        yield Channel(name, version.partition("+")[0], index)


COMMAND = Command("plan the legs of a night: a matrix of torch versions, runners and shards", add_arguments, run)
