"""Data becomes a dataclass of exactly the declared types, or an error names the field."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Literal

import pytest

from pytest_exportready.report.typed_json import Misfit, built, known


@dataclass(frozen=True)
class Inner:
    number: int = 0


@dataclass(frozen=True)
class Outer:
    text: str
    size: float = 0.0
    kind: Literal["a", "b"] = "a"
    maybe: int | None = None
    pairs: tuple[tuple[str, int], ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    day: date = date(2027, 1, 31)
    inner: tuple[Inner, ...] = ()


def test_every_value_has_the_type_of_its_field() -> None:
    data = {
        "text": "x",
        "size": 2,
        "kind": "b",
        "maybe": 3,
        "pairs": [["a", 1]],
        "facts": {"k": [1]},
        "inner": [Inner(1)],
    }
    assert built(Outer, data) == Outer("x", 2, "b", 3, (("a", 1),), {"k": [1]}, inner=(Inner(1),))
    assert built(Outer, {"text": ""}) == Outer("")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "must be an object with text, size, kind"),
        ({}, "missing text. Accepted keys: text, size, kind"),
        ({"text": "x", "other": 1}, "unknown other"),
        ({"text": 1}, "text must be text, not int"),
        ({"text": "x", "size": True}, "size must be a number, not bool"),
        ({"text": "x", "maybe": True}, "maybe must be int | None, not bool"),
        ({"text": "x", "maybe": 1.5}, "maybe must be int | None, not float"),
        ({"text": "x", "kind": "c"}, "kind must be Literal['a', 'b'], not str"),
        ({"text": "x", "pairs": "ab"}, "pairs must be a list, not str"),
        ({"text": "x", "pairs": [["a"]]}, "pairs must be a list, not list"),
        ({"text": "x", "pairs": [[1, 1]]}, "pairs must be text, not int"),
        ({"text": "x", "facts": []}, "facts must be dict[str, Any], not list"),
        ({"text": "x", "day": datetime(2027, 1, 31)}, "day must be a date, such as 2027-01-31"),
        ({"text": "x", "inner": [{"number": 1}]}, "inner must be"),
    ],
)
def test_what_does_not_fit_is_named(data: object, message: str) -> None:
    with pytest.raises(Misfit, match=re.escape(message)):
        built(Outer, data)


def test_what_a_later_version_added_can_be_left_out() -> None:
    assert known(Inner, {"number": 1, "later": 2}) == {"number": 1}
    with pytest.raises(Misfit, match="not list"):
        built(Inner, known(Inner, []))
