"""Every rank exports the same program."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest

from pytest_exportready.analysis.execution.trial import Observation, Trial
from pytest_exportready.analysis.program.fingerprint import graph_fingerprint, graph_steps
from pytest_exportready.analysis.ranks.check_ranks import several_ranks
from pytest_exportready.analysis.ranks.exchange import AbsentRanks, Meeting
from pytest_exportready.case import facts
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import few
from pytest_exportready.stages._stage import SkipStage, Stage

SAME = Rule(
    "ER803",
    "rank_graphs_match",
    """Every rank exports the same program: operators, arguments, shapes, names, constants.

    Why it matters:
        If `forward` reads the rank, the environment or a file, the exported program depends on the rank that
        exports it. Collectives in different programs hang.

    Severity:
        error: the programs differ. The first node that differs is named.
    """,
)
_PATIENCE = 120.0  # seconds to describe a large graph, once all ranks have met

_Steps = list[list[str]]
"""Digest and description of each node."""


def run(trial: Trial) -> Iterator[Observation]:
    assert trial.program is not None
    if "ranks" not in trial.results or trial.results["ranks"].outcome != "passed":
        raise SkipStage("the ranks are not compared")
    try:
        own = graph_fingerprint(trial.program).encode()
        replies = Meeting("graph", seconds=trial.rank_timeout).gather("program", own)
        fingerprints = [reply.decode() for reply in replies]
        yield {facts.RANKS: len(fingerprints), facts.GRAPHS: len(set(fingerprints))}
        if len(set(fingerprints)) > 1:
            steps = json.dumps([[step.digest[:16], step.words] for step in graph_steps(trial.program)])
            replies = Meeting("graph", seconds=_PATIENCE).gather("steps", steps.encode())
            yield _different(fingerprints, [json.loads(reply) for reply in replies])
    except AbsentRanks as absent:
        raise SkipStage(f"{absent}: a rank did not export, or judges another case") from absent


def _different(fingerprints: list[str], steps: list[_Steps]) -> Finding:
    most_common = Counter(fingerprints).most_common(1)[0][0]
    usual = fingerprints.index(most_common)
    others = [rank for rank, fingerprint in enumerate(fingerprints) if fingerprint != most_common]
    found = first_difference(steps[usual], steps[others[0]])
    nodes = f"{found[1]} instead of {found[0]}" if found else "in inputs, outputs, guards or ranges"
    ranks = f"Rank {others[0]}" if len(others) == 1 else f"Ranks {few(map(str, others))}"
    return SAME.error(
        "",
        f"{ranks} exported a different program than rank {usual}: {nodes}.",
        "Make `forward` depend on inputs, parameters and buffers only, not on the rank, the environment or a file.",
        rank=others[0],
    )


def first_difference(one: _Steps, other: _Steps) -> tuple[str, str] | None:
    """Return the descriptions of the first nodes that differ; None if all are equal."""
    pairs = zip_longest(one, other, fillvalue=["", "nothing"])
    return next(((a[1], b[1]) for a, b in pairs if a[0] != b[0]), None)


STAGE = Stage(
    run, rules=(SAME,), after=("export",), follows=("ranks",), every_rank=True, asked=lambda trial: several_ranks()
)
