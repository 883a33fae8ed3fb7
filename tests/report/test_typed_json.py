"""typed_json: data becomes a dataclass of exactly the types that it says, or the field that does not fit is named."""

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
    ("data", "told"),
    [
        ([], "is a list. Accepted are text, size, kind"),
        ({}, "lacks text. Accepted are text, size, kind"),
        ({"text": "x", "other": 1}, "has other, which is no key"),
        ({"text": 1}, "text: accepted is text, not a int"),
        ({"text": "x", "size": True}, "size: accepted is a number, not a bool"),
        ({"text": "x", "maybe": True}, "maybe: accepted is int | None, not a bool"),
        ({"text": "x", "maybe": 1.5}, "maybe: accepted is int | None, not a float"),
        ({"text": "x", "kind": "c"}, "kind: accepted is Literal['a', 'b'], not a str"),
        ({"text": "x", "pairs": "ab"}, "pairs: accepted is a list, not a str"),
        ({"text": "x", "pairs": [["a"]]}, "pairs: accepted is a list, not a list"),
        ({"text": "x", "pairs": [[1, 1]]}, "pairs: accepted is text, not a int"),
        ({"text": "x", "facts": []}, "facts: accepted is dict[str, Any], not a list"),
        ({"text": "x", "day": datetime(2027, 1, 31)}, "day: accepted is a date, such as 2027-01-31"),
        ({"text": "x", "inner": [{"number": 1}]}, "inner: accepted is"),
    ],
)
def test_what_does_not_fit_is_named(data: object, told: str) -> None:
    with pytest.raises(Misfit, match=re.escape(told)):
        built(Outer, data)


def test_what_a_later_version_added_can_be_left_out() -> None:
    assert known(Inner, {"number": 1, "later": 2}) == {"number": 1}
    with pytest.raises(Misfit, match="is a list"):
        built(Inner, known(Inner, []))
