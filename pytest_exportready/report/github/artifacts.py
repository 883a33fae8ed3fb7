"""Collect the results of the legs of a night. Artifacts are not trusted; a leg without one is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from pytest_exportready.report.github.matrix import Leg
from pytest_exportready.report.junit import JUnitError, read_junit
from pytest_exportready.report.run import Run, TestResult, merged

LEFT = "junit.xml"
DOCTOR = "exportready.doctor"
"""The classname in the results of a machine that is unsuitable."""

OURS = "exportready."
"""The prefix of properties that identify nights and legs, which artifacts must not set."""

LEG = f"{OURS}leg"
"""The property that identifies the runner in a comparison of nights."""

SUITE = "exportready.legs"
BYTES = 64 << 20
"""A larger JUnit file is not read; a leg writes at most 30 MB."""


@dataclass(frozen=True)
class Gathered:
    """The results of one channel on one runner."""

    channel: str
    runner: str
    run: Run  # its shards merged
    lost: tuple[str, ...]  # legs without a file that can be read


def gather(legs: Sequence[Leg], artifacts: Path) -> Iterator[Gathered]:
    """Yield the results in ``artifacts/<name of the leg>``, for each channel and runner of the plan.

    A leg without a JUnit file becomes a result with the outcome ``missing``, one whose file cannot be read ``infra``.
    Folders of other names are ignored.
    """

    key = attrgetter("channel", "runner")
    for (channel, runner), shards in groupby(sorted(legs, key=key), key=key):
        runs = [(leg, _left_by(leg, artifacts / leg.name / LEFT)) for leg in shards]
        both = merged(run for _, run in runs)
        lost = tuple(leg.name for leg, run in runs if any(result.classname == SUITE for result in run.results))
        properties = {name: value for name, value in both.properties.items() if not name.startswith(OURS)}
        properties |= {LEG: runner, "channel": channel}
        yield Gathered(channel, runner, replace(both, properties=properties), lost)


def _left_by(leg: Leg, path: Path) -> Run:
    if path.is_symlink() or not path.is_file():
        return _without(leg, "missing", "has no JUnit file: its runner was lost, or its job was canceled")
    if path.stat().st_size > BYTES:
        return _without(leg, "infra", f"has a JUnit file of {path.stat().st_size >> 20} MiB, which is too large")
    try:
        run = read_junit(path)
    except JUnitError as error:
        return _without(leg, "infra", f"has a JUnit file that cannot be read: {error}")
    if [result.classname for result in run.results] == [DOCTOR]:
        return run
    ran = ", ".join(str(one.shard) for one in run.shards)
    if leg.shard != "1/1" and ran != leg.shard:
        problem = f"has the results of shard {ran or 'none'} instead of {leg.shard}"
        return replace(run, results=(*run.results, *_without(leg, "infra", problem).results))
    return run


def _without(leg: Leg, outcome: str, problem: str) -> Run:
    result = TestResult(f"leg {leg.name}", SUITE, leg.name, outcome=outcome, message=f"leg {leg.name} {problem}")  # type: ignore[arg-type]
    return Run((result,))
