from __future__ import annotations

import random
from itertools import combinations

import pytest

from pytest_exportready.report.nightly.rank_sum import larger, smallest


@pytest.mark.parametrize(
    ("sample", "than", "p"),
    [
        ([19, 22, 16, 29, 24], [20, 11, 17, 12], 7 / 126),  # SciPy's example: U = 17, two-sided p = 0.1111
        ([4, 5, 6], [1, 2, 3], 1 / 20),
        ([1, 2, 3], [4, 5, 6], 1.0),
        ([5], [1, 2, 3], 1 / 4),
        ([1, 1], [1, 1, 1], 1.0),
    ],
)
def test_known_values(sample: list[float], than: list[float], p: float) -> None:
    assert larger(sample, than) == pytest.approx(p)


def test_by_trying_every_way_to_draw_the_sample() -> None:
    dice = random.Random(1)
    for _ in range(40):
        values = [dice.randint(1, 6) for _ in range(dice.randint(4, 9))]
        size = dice.randint(1, len(values) - 1)
        ranks = [sum(v < x for v in values) + (sum(v == x for v in values) + 1) / 2 for x in values]
        sums = [sum(drawn) for drawn in combinations(ranks, size)]
        expected = sum(total >= sum(ranks[:size]) - 1e-9 for total in sums) / len(sums)
        assert larger(values[:size], values[size:]) == pytest.approx(expected)


def test_the_smallest_p_is_that_of_a_sample_above_all() -> None:
    assert smallest(4, 7) == larger([20, 21, 22, 23], range(7)) == 1 / 330


def test_an_empty_sample_is_an_error() -> None:
    with pytest.raises(ValueError, match="a sample is empty"):
        larger([], [1.0])
