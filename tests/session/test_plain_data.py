from __future__ import annotations

from pathlib import Path

import pytest

from pytest_exportready.session.plain_data import plain_data


class Float(float):
    pass


class Text(str):
    def __str__(self) -> str:
        raise RuntimeError


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Float(1.5), 1.5),
        (True, True),
        (None, None),
        (b"x", b"x"),
        ("a\udcffb", "a?b"),
        (Text("x"), "x"),
        (("a", [Float(2.0)]), ("a", [2.0])),
        ({"\udcff": {"k": (1,)}}, {"?": {"k": (1,)}}),
        ({3}, [3]),
        (Path("a"), "a"),
        (Unprintable(), "(a Unprintable that cannot be printed)"),
    ],
)
def test_becomes_exact_types(given: object, expected: object) -> None:
    got = plain_data(given)
    assert got == expected
    assert type(got) is type(expected)


def test_subclasses_within_are_exact_too() -> None:
    assert type(plain_data({"k": [Float(1.0)]})["k"][0]) is float
