"""Read the JUnit files of a night, and a history of nights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property
from pathlib import Path

from pytest_exportready.report import truncate
from pytest_exportready.report.junit import JUnitError, read_junit
from pytest_exportready.report.nightly.observation import Cell, Observation, observed, together
from pytest_exportready.report.run import Run

LEG = "exportready.leg"
COMPARED = "exportready.compared"
"""The property of a JUnit file that is itself a comparison."""

ONE_NIGHT = timedelta(hours=12)
"""Files that begin within these hours of the first one belong to its night."""

_LATEST = datetime.max.replace(tzinfo=timezone.utc)


@dataclass(frozen=True)
class Night:
    """The runs of one night."""

    name: str  # of its file or folder
    runs: tuple[Run, ...]  # one for each JUnit file
    unread: tuple[str, ...] = ()  # the files that could not be read, and why
    legs: tuple[str, ...] = ()  # of a matrix, one for each run; empty where nights have none

    @cached_property
    def began(self) -> datetime | None:
        """When its first run began; None if no file records it."""
        return min(filter(None, map(_began, self.runs)), default=None)

    @property
    def date(self) -> str:
        return f"{self.began:%Y-%m-%d}" if self.began else self.name

    def environment(self, leg: str | None = None) -> dict[str, str]:
        """Return the properties of all runs, or of those of a leg; different values are joined."""
        values: dict[str, dict[str, None]] = defaultdict(dict)
        for run, of in self._runs_of_legs():
            if leg is None or of == leg:
                for key, value in run.properties.items():
                    values[key][value] = None
        return {key: " | ".join(those) for key, those in values.items()}

    @cached_property
    def cells(self) -> dict[Cell, Observation]:
        """The observation of each cell."""
        cells: dict[Cell, Observation] = {}
        for run, leg in self._runs_of_legs():
            for result in run.results:
                cell, seen = Cell(result.nodeid, leg), observed(result)
                cells[cell] = together(cells[cell], seen) if cell in cells else seen
        return cells

    def _runs_of_legs(self) -> Iterable[tuple[Run, str]]:
        return zip(self.runs, self.legs or ("",) * len(self.runs), strict=True)


def read_night(path: Path) -> Night:
    """Read a night from a JUnit file or a folder of them. Files that cannot be read are listed in ``unread``."""
    if path.is_dir():
        return _night(path.name, sorted(path.rglob("*.xml")))
    return _night(path.name, [path])


def read_history(folders: Iterable[Path]) -> list[Night]:
    """Read every night in ``folders``, the oldest first.

    Each subfolder is a night; files directly in a folder are grouped by the time at which they began.
    """
    nights: list[Night] = []
    for folder in folders:
        if not folder.is_dir():
            nights.append(read_night(folder))
            continue
        nights += map(read_night, sorted(inner for inner in folder.iterdir() if inner.is_dir()))
        nights += _by_time(_night(file.name, [file]) for file in sorted(folder.glob("*.xml")))
    return sorted((n for n in nights if n.runs or n.unread), key=lambda night: night.began or _LATEST)


def _by_time(files: Iterable[Night]) -> Iterator[Night]:
    group: list[Night] = []
    for night in sorted(files, key=lambda night: night.began or _LATEST):
        if group and not _same_night(group[0], night):
            yield _one(group)
            group = []
        group.append(night)
    if group:
        yield _one(group)


def _same_night(first: Night, other: Night) -> bool:
    return bool(first.began and other.began and other.began - first.began < ONE_NIGHT)


def _one(nights: Sequence[Night]) -> Night:
    runs = tuple(run for night in nights for run in night.runs)
    return Night(nights[0].name, runs, tuple(problem for night in nights for problem in night.unread))


def _night(name: str, files: Iterable[Path]) -> Night:
    runs: list[Run] = []
    unread: list[str] = []
    for file in files:
        try:
            run = read_junit(file)
        except JUnitError as error:
            unread.append(truncate.line(str(error)))
            continue
        if COMPARED not in run.properties:
            runs.append(run)
    return Night(truncate.line(name, 80), tuple(runs), tuple(unread))


def _began(run: Run) -> datetime | None:
    try:
        when = datetime.fromisoformat(run.timestamp.replace("Z", "+00:00"))
        return when.astimezone(timezone.utc) if when.tzinfo else when.replace(tzinfo=timezone.utc)
    except (ValueError, OverflowError):
        return None
