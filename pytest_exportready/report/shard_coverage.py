"""Shards that came together: which are missing, and which do not fit the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pytest_exportready.report.run import Run, TestResult
from pytest_exportready.report.shard import RanShard

SUITE = "exportready.shards"
_LEG = ("exportready.leg", "torch", "python", "gpu")
"""Properties by which runs of the same shard are told from a shard that ran twice."""

Leg = tuple[str, ...]


def whole(run: Run, parts: Sequence[Run]) -> Run:
    """``run``, merged of ``parts``, with a result for each shard that none of them is.

    Shards of which none is there twice may come from any machines; where some are there for two legs of a matrix, the
    others are to be as well. A single part is taken for what was asked for.
    """
    if len(parts) < 2:
        return run
    told = tuple(_told([(shard, _leg(part)) for part in parts for shard in part.shards]))
    return replace(run, results=(*run.results, *told)) if told else run


def _leg(run: Run) -> Leg:
    return tuple(run.properties.get(key, "") for key in _LEG)


def _told(shards: Sequence[tuple[RanShard, Leg]]) -> Iterator[TestResult]:
    legs: dict[tuple[int, str], dict[int, set[Leg]]] = defaultdict(lambda: defaultdict(set))
    for shard, leg in shards:
        legs[shard.count, f"{shard.cases} cases ({shard.whole})"][shard.index].add(leg)
    incomplete: dict[int, list[str]] = defaultdict(list)
    for (of, text), seen in legs.items():
        if any(len(seen[number]) < max(map(len, seen.values())) for number in range(1, of + 1)):
            incomplete[of].append(text)
    for of, texts in incomplete.items():
        if len(texts) > 1:
            yield _result(f"shards of {of}", "infra", _unlike(of, texts))
            continue
        seen = legs[of, texts[0]]
        most = max(map(len, seen.values()))
        for number in range(1, of + 1):
            if len(seen[number]) < most:
                some = f" of {most - len(seen[number])} of {most} legs" if most > 1 else ""
                message = f"shard {number}/{of}{some} left no results: its cases did not run, or its file is not here"
                yield _result(f"shard {number}/{of}", "missing", message)


def _unlike(of: int, texts: Sequence[str]) -> str:
    return (
        f"the {of} shards are parts of different wholes, so that cases ran twice or not at all: {'; '.join(texts)}. "
        "Fix: the same commit, the same arguments and the same --export-ready-shard-times on every machine"
    )


def _result(name: str, outcome: str, message: str) -> TestResult:
    return TestResult(name, SUITE, name, outcome=outcome, message=message)  # type: ignore[arg-type]
