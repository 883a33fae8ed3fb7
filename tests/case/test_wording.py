"""wording: counts and lists of names."""

from __future__ import annotations

import pytest

from pytest_exportready.case.wording import and_more, counted, few


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "", "c"], "a, (root), c"),
        (["a", "b", "c", "d"], "a, b, c and 1 more"),
        ([str(number) for number in range(2_000)], "0, 1, 2 and 1,997 more"),
    ],
)
def test_few(names: list[str], text: str) -> None:
    assert few(names) == few(iter(names)) == text


def test_and_more() -> None:
    """Of those that are not shown only the number is asked for."""
    assert and_more(["a", "b"], 5, "; ") == "a; b and 3 more"
    assert and_more(["a", "b"], 2) == "a, b"


def test_counted() -> None:
    assert counted(1, "batch", "batches") == "1 batch"
    assert counted(2, "batch", "batches") == "2 batches"
    assert counted(0, "cell") == "0 cells"
    assert counted(1_234, "cell") == "1,234 cells"
