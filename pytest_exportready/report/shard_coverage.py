"""Find shards that are missing, and shards that are not parts of the same whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pytest_exportready.case.explained import with_fix
from pytest_exportready.report.run import Run, TestResult
from pytest_exportready.report.shard import RanShard

SUITE = "exportready.shards"
_LEG = ("exportready.leg", "torch", "python", "gpu")
"""Properties that distinguish legs of a matrix from a shard that ran twice."""

LegKey = tuple[str, ...]


def whole(run: Run, parts: Sequence[Run]) -> Run:
    """Return ``run``, which is merged from ``parts``, with a result for each missing shard.

    Shards that occur once may come from any machine; if some occur for two legs of a matrix, the others must as well. A
    single part is complete by definition.
    """
    if len(parts) < 2:
        return run
    problems = tuple(_problems([(shard, _leg(part)) for part in parts for shard in part.shards]))
    return replace(run, results=(*run.results, *problems)) if problems else run


def _leg(run: Run) -> LegKey:
    return tuple(run.properties.get(key, "") for key in _LEG)


def _problems(shards: Sequence[tuple[RanShard, LegKey]]) -> Iterator[TestResult]:
    legs: dict[tuple[int, str], dict[int, set[LegKey]]] = defaultdict(lambda: defaultdict(set))
    for shard, leg in shards:
        legs[shard.count, f"{shard.cases} cases ({shard.whole})"][shard.index].add(leg)
    incomplete: dict[int, list[str]] = defaultdict(list)
    for (of, text), seen in legs.items():
        if any(len(seen[number]) < max(map(len, seen.values())) for number in range(1, of + 1)):
            incomplete[of].append(text)
    for of, texts in incomplete.items():
        if len(texts) > 1:
            yield _result(f"shards of {of}", "infra", _different_wholes(of, texts))
            continue
        seen = legs[of, texts[0]]
        most = max(map(len, seen.values()))
        for number in range(1, of + 1):
            if len(seen[number]) < most:
                some = f" of {most - len(seen[number])} of {most} legs" if most > 1 else ""
                message = f"shard {number}/{of}{some} has no results: its cases did not run, or its file is missing"
                yield _result(f"shard {number}/{of}", "missing", message)


def _different_wholes(of: int, texts: Sequence[str]) -> str:
    problem = f"the {of} shards are parts of different wholes, so cases may have run twice or not at all: "
    fix = "Use the same commit, arguments and `--export-ready-shard-times` on every machine."
    return with_fix(problem + "; ".join(texts), fix)


def _result(name: str, outcome: str, message: str) -> TestResult:
    return TestResult(name, SUITE, name, outcome=outcome, message=message)  # type: ignore[arg-type]
