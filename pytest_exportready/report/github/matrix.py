"""Legs: the jobs of a night, one for each torch, runner and shard."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from pytest_exportready.case.explained import ExplainedError
from pytest_exportready.report.shard import Shard
from pytest_exportready.report.typed_json import built

T = TypeVar("T")

LEG_LIMIT = 256
"""A matrix of GitHub Actions has no more jobs."""


class PlanError(ExplainedError):
    """Runners or a plan that cannot be used; the message names the file, the entry and what is accepted."""


@dataclass(frozen=True)
class Runner:
    """A kind of machine: ``labels`` choose it, ``gpu`` names its model ("cpu" for none), ``gpus`` how many are used.

    cuda: which builds of torch it runs, as in download.pytorch.org/whl/``cu130``. memory_gib: free on each GPU at the
    least, else the machine is not fit to judge.
    """

    labels: tuple[str, ...]
    gpu: str
    gpus: int
    cuda: str
    memory_gib: float = 0.0

    @property
    def name(self) -> str:
        return f"{_word(self.gpu)}x{self.gpus}" if self.gpus else _word(self.gpu)


@dataclass(frozen=True)
class Leg:
    """One job. channel: which torch it is of the night's (``stable``, ``nightly`` ...); torch: its exact version.

    times: the JUnit file of the history that weighs the shards; empty for none.
    """

    channel: str
    torch: str
    index: str
    runner: str
    labels: tuple[str, ...]
    gpus: int
    memory_gib: float
    shard: str
    times: str = ""

    @property
    def name(self) -> str:
        """Unique in its night: also the name of the artifact that the job leaves."""
        return f"{self.channel}-{self.runner}-{self.shard.replace('/', 'of')}"


@dataclass(frozen=True)
class Channel:
    """A torch to run with: its exact version, and the index it comes from (``{cuda}`` stands for the build)."""

    name: str
    torch: str
    index: str


def read_runners(path: Path) -> list[Runner]:
    """Raises PlanError for what is not a list of runners."""
    data = _json(path)
    if not isinstance(data, list) or not data:
        raise PlanError(f"{path}: accepted is a list of runners, as [{{{_keys(Runner)}}}]")
    runners = [_built(Runner, entry, f"{path}: runner {number}") for number, entry in enumerate(data, 1)]
    names = [runner.name for runner in runners]
    for name in names:
        if names.count(name) > 1:
            raise PlanError(f"{path}: two runners are {name}", "give them different gpu names or counts")
    return runners


def planned(runners: Sequence[Runner], channels: Sequence[Channel], shards: int) -> list[Leg]:
    """Every channel on every runner in so many shards. Raises PlanError when that is more than a matrix can hold."""
    legs = [
        Leg(
            channel.name,
            channel.torch,
            channel.index.replace("{cuda}", runner.cuda),
            runner.name,
            runner.labels,
            runner.gpus,
            runner.memory_gib,
            str(Shard(number, shards)),
        )
        for channel in channels
        for runner in runners
        for number in range(1, shards + 1)
    ]
    if len(legs) > LEG_LIMIT:
        raise PlanError(f"{len(legs)} legs, and a matrix holds {LEG_LIMIT}", "fewer shards, runners or channels")
    return legs


def matrix(legs: Iterable[Leg]) -> str:
    """The legs as one line of JSON for ``strategy.matrix``."""
    return json.dumps({"include": [{"name": leg.name, **asdict(leg)} for leg in legs]}, separators=(",", ":"))


def read_plan(path: Path) -> list[Leg]:
    """The legs that ``matrix`` wrote. Raises PlanError."""
    data = _json(path)
    entries = data.get("include") if isinstance(data, dict) else None
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise PlanError(f"{path}: is no plan", "write it with exportready plan")
    without_names = [{key: value for key, value in entry.items() if key != "name"} for entry in entries]
    legs = [_built(Leg, entry, f"{path}: leg {number}") for number, entry in enumerate(without_names, 1)]
    for leg in legs:
        if not re.fullmatch(r"[A-Za-z0-9._-]+", leg.name) or leg.name.startswith("."):
            raise PlanError(f"{path}: {leg.name!r} cannot be the name of a folder")
    if len({leg.name for leg in legs}) < len(legs):
        raise PlanError(f"{path}: two legs have the same name, and would leave their results in one place")
    return legs


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise PlanError(f"{path}: cannot be read: {error}") from None


def _built(cls: type[T], entry: Any, where: str) -> T:
    """An instance without negative numbers and, but for ``times``, without empty values."""
    try:
        made = built(cls, entry)
        if isinstance(made, Leg):
            Shard.parse(made.shard)
    except ValueError as error:
        raise PlanError(f"{where}: {error}") from None
    for name, given in vars(made).items():
        if isinstance(given, (int, float)) and not 0 <= given < inf:
            raise PlanError(f"{where}: {name}: accepted is a number, 0 at the least")
        if given in ("", ()) and name != "times":
            raise PlanError(f"{where}: {name}: is empty")
    return made


def _keys(cls: Any) -> str:
    return ", ".join(field.name for field in fields(cls))


def _word(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "gpu"
