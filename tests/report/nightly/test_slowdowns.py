from __future__ import annotations

import random

import pytest

from pytest_exportready.report.nightly.slowdowns import slower


def nights(*values: float) -> list[tuple[float, ...]]:
    return [(value,) for value in values]


QUIET = nights(20.1, 19.9, 20.0, 20.2, 19.8, 20.0, 20.1)


def test_two_nights_running_is_slower() -> None:
    found = slower("export", [*QUIET, (23.0,)], (23.0,))
    assert found is not None
    assert (found.confirmed, found.was, round(found.share, 2)) == (True, 20.0, 0.15)


@pytest.mark.parametrize(
    ("earlier", "tonight"),
    [
        pytest.param([*QUIET, (20.0,)], (23.0,), id="tonight only"),
        pytest.param(QUIET[:4], (23.0,), id="no night between"),
    ],
)
def test_one_night_is_watched(earlier: list[tuple[float, ...]], tonight: tuple[float, ...]) -> None:
    found = slower("export", earlier, tonight)
    assert found is not None
    assert not found.confirmed


@pytest.mark.parametrize(
    ("earlier", "tonight"),
    [
        pytest.param([*QUIET, (21.9,)], (21.9,), id="less than a tenth"),
        pytest.param([*QUIET, (23.0,)], (20.0,), id="was slow last night"),
        pytest.param([*nights(*[0.2] * 8), (0.6,)], (0.6,), id="below the floor"),
        pytest.param(QUIET[:3], (40.0,), id="too few nights"),
        pytest.param([*nights(20, 26, 17, 24, 18, 22, 20), (24.0,)], (24.0,), id="within its own scatter"),
        pytest.param(QUIET, (), id="did not run"),
        pytest.param([*QUIET, (17.0,)], (17.0,), id="faster"),
    ],
)
def test_what_is_not_slower(earlier: list[tuple[float, ...]], tonight: tuple[float, ...]) -> None:
    assert slower("export", earlier, tonight) is None


def test_where_there_are_samples_they_must_be_unlike() -> None:
    """The medians of both nights are above by more than a tenth; the samples overlap."""
    overlapping = (18.0, 18.5, 23.5, 23.6, 23.7)
    clear = (23.0, 23.1, 23.2, 23.3, 23.4)
    assert slower("export", [*QUIET, overlapping], overlapping) is None
    confirmed = slower("export", [*QUIET, clear], clear)
    assert confirmed is not None
    assert confirmed.confirmed


def test_noise_of_five_percent_is_never_slower() -> None:
    dice = random.Random(7)
    for _ in range(3_000):
        times = nights(*(20 * dice.uniform(0.95, 1.05) for _ in range(9)))
        found = slower("export", times[:-1], times[-1])
        assert found is None or not found.confirmed
