"""Every rank exports the same program, where several are judged together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest

from pytest_exportready.analysis.execution.trial import Observation, Trial
from pytest_exportready.analysis.program.fingerprint import graph_fingerprint, graph_steps
from pytest_exportready.analysis.ranks.check_ranks import several_ranks
from pytest_exportready.analysis.ranks.exchange import AbsentRanks, Meeting
from pytest_exportready.case.facts import GRAPHS, RANKS
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import few
from pytest_exportready.stages._stage import SkipStage, Stage

SAME = Rule(
    "ER803",
    "rank_graphs_match",
    "Every rank must export the same program: operators, arguments, shapes, names, constants. Prints of the graphs "
    "are compared, and the first node that differs is named. A rank, an environment variable or a file that forward "
    "reads makes what ships depend on which rank exports; collectives in unlike programs hang.",
)
_PATIENCE = 120.0  # seconds, once all have met: a large export is walked

_Steps = list[list[str]]  # of each node its digest and words


def run(trial: Trial) -> Iterator[Observation]:
    assert trial.program is not None
    if "ranks" not in trial.results or trial.results["ranks"].outcome != "passed":
        raise SkipStage("the ranks are not compared")
    try:
        mine = graph_fingerprint(trial.program).encode()
        prints = [told.decode() for told in Meeting("graph", seconds=trial.rank_timeout).gather("program", mine)]
        yield {RANKS: len(prints), GRAPHS: len(set(prints))}
        if len(set(prints)) > 1:
            steps = json.dumps([[step.digest[:16], step.words] for step in graph_steps(trial.program)])
            every = [json.loads(told) for told in Meeting("graph", seconds=_PATIENCE).gather("steps", steps.encode())]
            yield _unlike(prints, every)
    except AbsentRanks as absent:
        raise SkipStage(f"{absent}: a rank exported nothing, or judges another case") from absent


def _unlike(prints: list[str], steps: list[_Steps]) -> Finding:
    usual = Counter(prints).most_common(1)[0][0]
    model, others = prints.index(usual), [rank for rank, told in enumerate(prints) if told != usual]
    found = first_difference(steps[model], steps[others[0]])
    mine, theirs = found or ("", "")
    places = f": {theirs} there, {mine} on rank {model}" if found else ", in its inputs, outputs, guards or ranges"
    ranks = f"rank{'s' * (len(others) > 1)} {few(map(str, others))}"
    return SAME.error(
        "",
        f"{ranks} exported another program than rank {model}{places}",
        "let forward depend on inputs, parameters and buffers only: no rank, no environment, no file of one rank",
        rank=others[0],
    )


def first_difference(one: _Steps, other: _Steps) -> tuple[str, str] | None:
    """Words for the first node of each that the other has not in that place; None where all are equal."""
    pairs = zip_longest(one, other, fillvalue=["", "nothing"])
    return next(((mine[1], theirs[1]) for mine, theirs in pairs if mine[0] != theirs[0]), None)


STAGE = Stage(
    run, rules=(SAME,), after=("export",), follows=("ranks",), every_rank=True, asked=lambda trial: several_ranks()
)
