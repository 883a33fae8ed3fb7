"""Cases whose scenario has several ranks: built, trained and judged in each, with one verdict from all."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from exportready_fixtures.world import current_rank
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


def in_rank() -> bool:
    """Whether this process is a rank that runs what another pytest process asks for."""
    return current_rank.RANK is not None


def run_in_ranks(item: pytest.Item, scenario: str) -> bool:
    """Have a case whose scenario trains in ranks run in them; whether it does."""
    from pytest_exportready.case.scenario import all_scenarios

    known = all_scenarios().get(scenario)
    if CASE_OPTIONS not in item.stash or known is None:
        return False
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

    def __init__(self) -> None:
        from pytest_exportready.analysis.ranks.exchange import Meeting

        self._meeting = Meeting("verdict")  # made now: a rank that fails leaves the group

    @property
    def lead(self) -> bool:
        """Whether this rank proves what one rank can prove for all."""
        return self._meeting.here == 0

    def leave(self) -> None:
        """Leave the process group, so that no other rank waits for this one."""
        from exportready_fixtures.world import group

        group.leave()

    def settle(self, mine: Readiness | None) -> Readiness | None:
        """The verdict of all ranks. None: this rank has none, as its case function skipped the test."""
        told = [json.loads(text) for text in self._meeting.exchange(_text(mine), self.seconds)]
        verdicts = [Readiness.from_dict(data) for data in told if data is not None]
        return worst_of(verdicts) if verdicts else None


def _text(readiness: Readiness | None) -> bytes:
    data: Any = None if readiness is None else readiness.to_dict()
    return json.dumps(data).encode()


def together() -> Together | None:
    """The ranks that this process judges a case with; None where it is alone."""
    if current_rank.RANK is None or current_rank.RANK.size == 1:
        return None
    return Together()
