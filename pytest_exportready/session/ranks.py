"""Cases whose scenario has several ranks: built, trained and judged in each, with one verdict from all."""

from __future__ import annotations

import json
from typing import Protocol

import pytest

from pytest_exportready.case.finding import Rule
from pytest_exportready.case.readiness import Readiness, StageResult
from pytest_exportready.session.marker import CASE_OPTIONS
from pytest_exportready.session.merge_ranks import worst_of

SECONDS = 600.0
"""For building, training and judging a case in ranks, unless the case has a ``world`` marker."""

FINISH = Rule(
    "ER104",
    "ranks_finish",
    """Every rank that trains and judges a case finishes.

    Why it matters:
        If one rank dies, hangs or skips a collective, the others wait for it in their collectives until the timeout.

    Severity:
        error: a rank died, did not finish in time, or did not run the same collectives as the others.
    """,
)


class Rank(Protocol):
    """The rank that this process runs as, from the plugin that started it (``pytest_exportready_rank``)."""

    @property
    def size(self) -> int:
        """The number of ranks that run the current test."""

    @property
    def device(self) -> str:
        """The device of this rank, such as ``cuda:0``."""

    def leave(self) -> None:
        """Leave the default process group, so that no other rank waits for this one."""


def current_rank(config: pytest.Config) -> Rank | None:
    """Return the rank that this process runs as; None outside of ranks."""
    rank: Rank | None = config.hook.pytest_exportready_rank()
    return rank


def in_rank(config: pytest.Config) -> bool:
    """Return whether this process is a rank that runs tests for another pytest process."""
    return current_rank(config) is not None


def ranks_of(scenario: str) -> int:
    """Return the number of ranks of a scenario; 1 for one that does not exist, which the stage that trains reports."""
    from pytest_exportready.case.scenario import ScenarioError, find_scenario

    try:
        return find_scenario(scenario).ranks
    except ScenarioError:
        return 1


def run_in_ranks(item: pytest.Item, scenario: str, gpus: int | list[int], new_process: bool = False) -> bool:
    """Mark the case to run in ranks if its scenario needs several, or if it needs GPUs; return whether it does.

    Args:
        gpus: The number of GPUs, or their indices; ranks share them if there are fewer.
        new_process: Whether it runs in a rank in any case, because this process is not fit.
    """
    if CASE_OPTIONS not in item.stash:
        return False
    given, size = item.get_closest_marker("world"), ranks_of(scenario)
    if given is None and size == 1 and not gpus and not new_process:
        return False
    args, kwargs = (given.args, given.kwargs) if given else ((size,), {"timeout": SECONDS})
    if gpus:
        item.add_marker(pytest.mark.world(*args, **{"gpus": gpus, **kwargs}), append=False)
    elif given is None:
        item.add_marker(pytest.mark.world(*args, **kwargs))
    return True


def without_verdict(report: pytest.TestReport, scenario: str, device: str) -> Readiness:
    """Return the readiness of a case whose ranks failed before they had a verdict."""
    if reason := getattr(report, "ranks_not_prepared", ""):
        return Readiness(report.nodeid, scenario, (StageResult("train", "infra", reason=reason),), (), device=device)
    first_line = report.longreprtext.strip().partition("\n")[0]
    failure = getattr(report, "rank_failure", {"problem": first_line, "fix": "", "ranks": []})
    message = f"{failure['problem'][:1].upper()}{failure['problem'][1:]}"
    fix = failure["fix"] or "Check what each rank was doing, in the report of the test; a rank may need more memory."
    (rank,) = failure["ranks"] if len(failure["ranks"]) == 1 else (None,)
    finding = FINISH.error("", message if message.endswith(".") else f"{message}.", fix, stage="train", rank=rank)
    return Readiness(report.nodeid, scenario, (StageResult("train", "failed"),), (finding,), device=device)


class Together:
    """The ranks that judge one case at the same time, as one of them sees them."""

    seconds = SECONDS

    def __init__(self, rank: Rank) -> None:
        from pytest_exportready.analysis.ranks.exchange import Meeting

        self._rank = rank
        self._meeting = Meeting("verdict", seconds=self.seconds)  # made now: a rank that fails leaves the group

    @property
    def lead(self) -> bool:
        """Whether this rank runs the stages that one rank runs for all."""
        return self._meeting.is_first

    def leave(self) -> None:
        """Leave the process group, so that no other rank waits for this one."""
        self._rank.leave()

    def settle(self, own: Readiness | None) -> Readiness | None:
        """Return the verdict of all ranks.

        Args:
            own: The verdict of this rank; None if its case function skipped the test.
        """
        text = json.dumps(None if own is None else own.to_dict()).encode()
        exchanged = [json.loads(data) for data in self._meeting.gather("readiness", text)]
        verdicts = [Readiness.from_dict(data) for data in exchanged if data is not None]
        return worst_of(verdicts) if verdicts else None


def together(config: pytest.Config) -> Together | None:
    """Return the ranks that this process judges a case with; None if it judges alone."""
    rank = current_rank(config)
    return None if rank is None or rank.size == 1 else Together(rank)
