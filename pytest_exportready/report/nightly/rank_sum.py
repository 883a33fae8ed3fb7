"""The exact one-sided rank-sum test of Mann and Whitney (1947) for small samples."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import comb


def larger(sample: Sequence[float], than: Sequence[float]) -> float:
    """Return the one-sided p-value for ``sample`` being larger, if both were drawn from the same distribution.

    Exact, by counting all ways to draw the sample from the pooled values; equal values share their mean rank (Lehmann,
    Nonparametrics, 1975, section 1.4).

    Raises:
        ValueError: A sample is empty.
    """
    if not sample or not than:
        raise ValueError("a sample is empty")
    ranks = _doubled_ranks([*sample, *than])
    reached = sum(ranks[: len(sample)])
    ways = [{0: 1}, *({} for _ in sample)]
    for rank in ranks:
        for size in range(len(sample), 0, -1):
            for total, count in ways[size - 1].items():
                ways[size][total + rank] = ways[size].get(total + rank, 0) + count
    as_high = sum(count for total, count in ways[-1].items() if total >= reached)
    return as_high / comb(len(ranks), len(sample))


@lru_cache
def smallest(sample: int, than: int) -> float:
    """Return the smallest p-value that samples of these sizes can have."""
    return 1 / comb(sample + than, sample)


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Return twice the mean rank of each value, an integer even for ties."""
    ordered = sorted(values)
    first = {value: ordered.index(value) for value in ordered}
    last = {value: index for index, value in enumerate(ordered)}
    return [first[value] + last[value] + 2 for value in values]
