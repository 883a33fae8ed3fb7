"""Legs: the jobs of a night, one for each torch, runner and shard."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from pytest_exportready.case.explained import ExplainedError
from pytest_exportready.report.shard import Shard
from pytest_exportready.report.typed_json import built

T = TypeVar("T")

LEG_LIMIT = 256
"""The most jobs that a matrix of GitHub Actions may have."""


class PlanError(ExplainedError):
    """Runners or a plan that cannot be used; the message names the file, the entry and what is accepted."""


@dataclass(frozen=True)
class Runner:
    """A kind of machine."""

    labels: tuple[str, ...]  # of GitHub Actions, which choose it
    gpu: str  # the model, "cpu" for none
    gpus: int  # how many are used
    cuda: str  # the build of torch, as in download.pytorch.org/whl/cu130
    memory_gib: float = 0.0  # that must be free on each GPU

    def __post_init__(self) -> None:
        _check_machine(self)

    @property
    def name(self) -> str:
        return f"{_word(self.gpu)}x{self.gpus}" if self.gpus else _word(self.gpu)


@dataclass(frozen=True)
class Leg:
    """One job of a night."""

    channel: str  # which torch of the night: stable, nightly ...
    torch: str  # its exact version
    index: str
    runner: str
    labels: tuple[str, ...]
    gpus: int
    memory_gib: float
    shard: str
    times: str = ""  # the JUnit file of the history that the shards are balanced with

    def __post_init__(self) -> None:
        _check_machine(self)
        Shard.parse(self.shard)

    @property
    def name(self) -> str:
        """The name of the job and of its artifact, unique in its night."""
        return f"{self.channel}-{self.runner}-{self.shard.replace('/', 'of')}"


@dataclass(frozen=True)
class Channel:
    """A torch to run with."""

    name: str
    torch: str  # its exact version
    index: str  # where it comes from; {cuda} stands for the build


def read_runners(path: Path) -> list[Runner]:
    """Read a JSON list of runners.

    Raises:
        PlanError: The file is not such a list.
    """
    data = _json(path)
    if not isinstance(data, list) or not data:
        raise PlanError(
            f"{path} is not a list of runners",
            'Write [{"labels": ["..."], "gpu": "H100", "gpus": 1, "cuda": "cu130"}].',
        )
    runners = [_entry(Runner, entry, f"{path}: runner {number}") for number, entry in enumerate(data, 1)]
    for name in _repeated(runner.name for runner in runners):
        raise PlanError(f"{path}: two runners have the name {name}", "Change the gpu or gpus of one of them.")
    return runners


def planned(runners: Sequence[Runner], channels: Sequence[Channel], shards: int) -> list[Leg]:
    """Return a leg for every channel on every runner in every shard.

    Raises:
        PlanError: There are more than a matrix may have.
    """
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
        problem = f"the plan has {len(legs)} legs, and a matrix may have {LEG_LIMIT}"
        raise PlanError(problem, "Use fewer shards, runners or channels.")
    return legs


def matrix(legs: Iterable[Leg]) -> str:
    """Return the legs as one line of JSON for ``strategy.matrix``."""
    return json.dumps({"include": [{"name": leg.name, **asdict(leg)} for leg in legs]}, separators=(",", ":"))


def read_plan(path: Path) -> list[Leg]:
    """Read the legs that ``matrix`` wrote.

    Raises:
        PlanError: The file is not a plan.
    """
    data = _json(path)
    entries = data.get("include") if isinstance(data, dict) else None
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise PlanError(f"{path} is not a plan", "Write it with `exportready plan`.")
    without_names = [{key: value for key, value in entry.items() if key != "name"} for entry in entries]
    legs = [_entry(Leg, entry, f"{path}: leg {number}") for number, entry in enumerate(without_names, 1)]
    for leg in legs:
        if not re.fullmatch(r"[A-Za-z0-9._-]+", leg.name) or leg.name.startswith("."):
            raise PlanError(f"{path}: {leg.name!r} cannot be the name of a folder")
    for name in _repeated(leg.name for leg in legs):
        raise PlanError(f"{path}: two legs have the name {name}, which is also the folder of their results")
    return legs


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise PlanError(f"{path} cannot be read: {error}") from None


def _entry(cls: type[T], entry: Any, place: str) -> T:
    try:
        return built(cls, entry)
    except ValueError as error:
        raise PlanError(f"{place}: {error}") from None


def _check_machine(made: Runner | Leg) -> None:
    """Raise ValueError unless every value is one that a machine can have."""
    if not made.labels:
        raise ValueError("labels is empty")
    for name, value in vars(made).items():
        if value == "" and name != "times":
            raise ValueError(f"{name} is empty")
        if isinstance(value, (int, float)) and not 0 <= value < inf:
            raise ValueError(f"{name} is {value}, which is not a number from 0")


def _repeated(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _word(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "gpu"
