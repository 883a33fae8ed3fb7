"""Cases whose scenario has several ranks: built, trained and judged in each, with one verdict from all."""

from __future__ import annotations

import json
import re
from typing import Any, Protocol

import pytest

from pytest_exportready.case.finding import Rule
from pytest_exportready.case.readiness import Readiness, StageResult
from pytest_exportready.session.marker import CASE_OPTIONS
from pytest_exportready.session.merge_ranks import worst_of

SECONDS = 600.0
"""For building, training and judging a case in ranks, unless a ``world`` marker of its own says otherwise."""

FINISH = Rule(
    "ER104",
    "ranks_finish",
    "Every rank that trains and judges a case comes to an end: none dies, hangs, or leaves out a collective that "
    "others wait in.",
)


class Rank(Protocol):
    """The rank that this process is, as the plugin that has started it describes it (``pytest_exportready_rank``)."""

    @property
    def size(self) -> int:
        """The number of ranks that run the current test."""

    def leave(self) -> None:
        """Leave the default process group, so that no other rank waits for this one."""


def current_rank(config: pytest.Config) -> Rank | None:
    """Return the rank that this process is; None outside of ranks."""
    rank: Rank | None = config.hook.pytest_exportready_rank()
    return rank


def in_rank(config: pytest.Config) -> bool:
    """Return whether this process is a rank that runs what another pytest process asks for."""
    return current_rank(config) is not None


def run_in_ranks(item: pytest.Item, scenario: str) -> bool:
    """Have a case whose scenario trains in ranks run in them; whether it does."""
    from pytest_exportready.case.scenario import ScenarioError, find_scenario

    if CASE_OPTIONS not in item.stash:
        return False
    try:
        known = find_scenario(scenario)
    except ScenarioError:
        return False  # the stage that trains reports it
    if item.get_closest_marker("world") is None:
        if known.ranks == 1:
            return False
        item.add_marker(pytest.mark.world(known.ranks, timeout=SECONDS))
    return True


def without_verdict(report: pytest.TestReport, scenario: str) -> Readiness:
    """The readiness of a case of which the ranks tell nothing: what they failed of, the first cause first."""
    cause = report.longreprtext.strip().partition("\n")[0]
    named = re.match(r"rank (\d+) of", cause)
    fix = "see what each rank was doing, below; a rank that ran out of memory needs a larger machine"
    finding = FINISH.error("", cause, fix, stage="train", rank=int(named[1]) if named else None)
    return Readiness(report.nodeid, scenario, (StageResult("train", "failed"),), (finding,))


class Together:
    """The ranks that judge one case at the same time, as one of them sees them."""

    seconds = SECONDS

    def __init__(self, rank: Rank) -> None:
        from pytest_exportready.analysis.ranks.exchange import Meeting

        self._rank = rank
        self._meeting = Meeting("verdict", seconds=self.seconds)  # made now: a rank that fails leaves the group

    @property
    def lead(self) -> bool:
        """Whether this rank proves what one rank can prove for all."""
        return self._meeting.is_first

    def leave(self) -> None:
        """Leave the process group, so that no other rank waits for this one."""
        self._rank.leave()

    def settle(self, mine: Readiness | None) -> Readiness | None:
        """The verdict of all ranks. None: this rank has none, as its case function skipped the test."""
        told = [json.loads(text) for text in self._meeting.gather("readiness", _text(mine))]
        verdicts = [Readiness.from_dict(data) for data in told if data is not None]
        return worst_of(verdicts) if verdicts else None


def _text(readiness: Readiness | None) -> bytes:
    data: Any = None if readiness is None else readiness.to_dict()
    return json.dumps(data).encode()


def together(config: pytest.Config) -> Together | None:
    """The ranks that this process judges a case with; None where it is alone."""
    rank = current_rank(config)
    return None if rank is None or rank.size == 1 else Together(rank)
