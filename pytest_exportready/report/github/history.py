"""The history of nights, as ``CHANNEL/WHEN/RUNNER.xml``, used to compare and to plan a night."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

from pytest_exportready.report.github.artifacts import Gathered
from pytest_exportready.report.junit import JUnitError, read_junit, write_junit
from pytest_exportready.report.run import Run

WHEN = "%Y-%m-%dT%H%M"
NIGHTS = 14
"""Two weeks, and more than the seven nights of a baseline of durations."""


def nights(history: Path, channel: str) -> list[Path]:
    """Return the folders of the nights of a channel, the latest last, without those of a clock in the future.

    Such a night would stay the latest.
    """
    folder = history / channel
    latest = (datetime.now(timezone.utc) + timedelta(days=1)).strftime(WHEN)
    found = folder.iterdir() if folder.is_dir() else ()
    dated = (path for path in found if path.is_dir() and re.fullmatch(r"\d{4}-\d\d-\d\dT\d{4}", path.name))
    return sorted(path for path in dated if path.name <= latest)


def keep(gathered: list[Gathered], history: Path, now: datetime, limit: int = NIGHTS) -> None:
    """Add tonight, and remove what is older than the last ``limit`` nights.

    Raises:
        OSError: A file cannot be written or removed.
    """
    when = now.astimezone(timezone.utc).strftime(WHEN)
    for one in gathered:
        write_junit(one.run, history / one.channel / when / f"{one.runner}.xml")
    for channel in {one.channel for one in gathered}:
        for old in nights(history, channel)[:-limit]:
            shutil.rmtree(old)


def last_good(history: Path, channel: str = "nightly") -> str:
    """Return the torch of the latest night with every case ready, else with every case judged; or empty."""
    judged = ""
    for night in reversed(nights(history, channel)):
        runs = [run for _, run in _read(night)]
        versions = {run.properties.get("torch", "").partition("+")[0] for run in runs}
        version = versions.pop() if len(versions) == 1 else ""
        if not version or any(run.counts["infra"] or run.counts["missing"] for run in runs):
            continue
        if all(run.state == "ready" for run in runs):
            return version
        judged = judged or version
    return judged


def times(history: Path, channel: str, runner: str) -> str:
    """Return the file, relative to ``history``, of the latest night with the duration of every case; or empty."""
    for night in reversed(nights(history, channel)):
        for path, run in _read(night):
            if path.stem == runner and not run.counts["missing"]:
                return path.relative_to(history).as_posix()
    return ""


def _read(night: Path) -> Iterator[tuple[Path, Run]]:
    """Yield the files of a night that can be read."""
    for path in sorted(night.glob("*.xml")):
        try:
            yield path, read_junit(path)
        except JUnitError:
            continue
