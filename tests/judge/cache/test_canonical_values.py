"""Equal values have equal canonical forms, and different values different ones, also inside themselves."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from pytest_exportready.analysis.execution.trial import NotCacheable
from pytest_exportready.judge.cache.canonical_values import CanonicalValues


def canonical(value: Any) -> str:
    return repr(CanonicalValues().of(value, "it"))


class Point:
    def __init__(self, x: object) -> None:
        self.x = x


HELD = [Point(1), Point(2)]


def ring(last: object) -> list[object]:
    made: list[object] = [1, [2, last]]
    made.append(made)
    return made


def parented(scale: float) -> nn.Module:
    """A child that knows its parent by a weak reference, and a parent that a list in it holds."""
    parent = nn.Sequential(nn.Linear(2, 2))
    nn.init.constant_(parent[0].weight, scale)
    nn.init.zeros_(parent[0].bias)
    parent[0].parent = weakref.ref(parent)
    parent.listed = [parent]
    return parent


def lstm(scale: float) -> nn.Module:
    """Keeps weak references to its weights."""
    torch.manual_seed(0)
    net = nn.LSTM(2, 3)
    nn.init.constant_(net.weight_hh_l0, scale)
    return net


def multiplied(by: int) -> Callable[[int], int]:
    return lambda x: x * by


def defaulted(by: int) -> Callable[[int], int]:
    def function(x: int, by: int = by) -> int:
        return x * by

    return function


def one_line(first: bool) -> Callable[[int], int]:
    return [lambda x: x + 1, lambda x: x + 2][first]  # fmt: skip


def named(name: str) -> Callable[[], None]:
    def function() -> None: ...

    function.label = name  # type: ignore[attr-defined]
    return function


def module(name: str) -> ModuleType:
    return ModuleType(name)


PAIRS: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "a float": (float, 0.1, 0.1 + 2e-17),
    "a number of another type": (lambda kind: kind(1), int, bool),
    "a tensor": (lambda x: torch.tensor([x]), 1.0, 1.0000001),
    "strides": (lambda stride: torch.zeros(4, 4).as_strided((2, 2), stride), (2, 1), (1, 2)),
    "a list within itself": (ring, 3, 4),
    "weak references to weights": (lstm, 0.5, 0.25),
    "a parent that its child knows": (parented, 0.5, 0.25),
    "a weak reference": (lambda x: [kept := Point(x), weakref.ref(kept)], 1, 2),
    "a weak reference to what others hold": (lambda i: weakref.ref(HELD[i]), 0, 1),
    "a dead weak reference": (lambda x: weakref.ref(Point(x)) if x else None, 1, 0),
    "what a function holds": (multiplied, 2, 3),
    "a default argument": (defaulted, 2, 3),
    "two lambdas of one line": (one_line, False, True),
    "an attribute of a function": (named, "a", "b"),
    "an object": (Point, 1, 2),
    "a set": (lambda x: {"a", "b", x}, "c", "d"),
    "a weak set": (lambda x: [kept := Point(x), weakref.WeakSet([kept])], 1, 2),
    "an order": (OrderedDict.fromkeys, "ab", "ba"),
    "a partial": (lambda x: partial(torch.add, x), 1, 2),
    "a module": (module, "numbers", "math"),
    "a hook's bound method": (lambda name: getattr(nn.Linear(1, 1), name), "train", "eval"),
}


@pytest.mark.parametrize(("make", "one", "other"), PAIRS.values(), ids=PAIRS)
def test_equal_values_are_alike_and_others_are_not(make: Callable[[Any], Any], one: Any, other: Any) -> None:
    assert canonical(make(one)) == canonical(make(one))
    assert canonical(make(one)) != canonical(make(other))


@pytest.mark.parametrize("value", [threading.Lock(), (x for x in "ab"), [{"a": threading.Lock()}]], ids="abc")
def test_what_cannot_be_compared(value: object) -> None:
    with pytest.raises(NotCacheable, match=r"it.* is a (lock|generator)"):
        canonical(value)


def test_what_is_nested_too_deep() -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(NotCacheable, match="nested too deep"):
        canonical(deep)


def test_the_files_behind_classes_and_functions_are_known() -> None:
    values = CanonicalValues()
    values.of([Point(1), nn.Linear(1, 1), one_line(True), weakref], "it")
    assert {__name__, "torch.nn.modules.linear", "weakref"} <= values.modules
