"""Gather what the legs of a night left. Nothing in an artifact is trusted, and a leg that left none is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from pytest_exportready.report.github.matrix import Leg
from pytest_exportready.report.junit import JUnitError, read_junit
from pytest_exportready.report.run import Run, TestResult, merged

LEFT = "junit.xml"
DOCTOR = "exportready.doctor"
"""What a machine leaves that is not fit to judge."""

OURS = "exportready."
"""How properties begin by which we tell nights and legs apart: an artifact does not set them."""

LEG = f"{OURS}leg"
"""The property by which the comparison of nights tells the runners of a matrix apart."""

SUITE = "exportready.legs"
BYTES = 64 << 20
"""A JUnit file larger than this is not read: a leg writes at most 30 MB."""


@dataclass(frozen=True)
class Gathered:
    """What one channel came to on one runner, its shards merged. lost: legs that left nothing that can be read."""

    channel: str
    runner: str
    run: Run
    lost: tuple[str, ...]


def gather(legs: Sequence[Leg], artifacts: Path) -> Iterator[Gathered]:
    """What lies in ``artifacts/<name of the leg>``, for each channel and runner of the plan.

    A leg without a JUnit file becomes a result of outcome ``missing``, one whose file cannot be read ``infra``: neither
    is green. Folders that belong to no leg of the plan are not looked at.
    """

    def place(leg: Leg) -> tuple[str, str]:
        return leg.channel, leg.runner

    for (channel, runner), shards in groupby(sorted(legs, key=place), key=place):
        runs = [(leg, _left_by(leg, artifacts / leg.name / LEFT)) for leg in shards]
        both = merged(run for _, run in runs)
        told = {LEG: runner, "channel": channel}
        lost = tuple(leg.name for leg, run in runs if any(result.classname == SUITE for result in run.results))
        kept = {key: value for key, value in both.properties.items() if not key.startswith(OURS)}
        yield Gathered(channel, runner, replace(both, properties={**kept, **told}), lost)


def _left_by(leg: Leg, path: Path) -> Run:
    if path.is_symlink() or not path.is_file():
        return _without(leg, "missing", "left no JUnit file: its runner was lost, or its job cancelled")
    if path.stat().st_size > BYTES:
        return _without(leg, "infra", f"left a JUnit file of {path.stat().st_size >> 20} MiB: not read")
    try:
        run = read_junit(path)
    except JUnitError as error:
        return _without(leg, "infra", f"left a JUnit file that cannot be read: {error}")
    if [result.classname for result in run.results] == [DOCTOR]:
        return run
    ran = ", ".join(str(one.shard) for one in run.shards)
    if leg.shard != "1/1" and ran != leg.shard:
        problem = f"left the results of shard {ran or 'none'}, and ran as {leg.shard}"
        return replace(run, results=(*run.results, *_without(leg, "infra", problem).results))
    return run


def _without(leg: Leg, outcome: str, problem: str) -> Run:
    result = TestResult(f"leg {leg.name}", SUITE, leg.name, outcome=outcome, message=f"leg {leg.name} {problem}")  # type: ignore[arg-type]
    return Run((result,))
