from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from pytest_exportready.analysis.module.nested_values import inside, user_packages


class Record:
    def __init__(self, **values: Any) -> None:
        vars(self).update(values)


def places(value: Any) -> list[str]:
    return [place for place, _ in inside(value, {__name__.split(".")[0]})]


def test_lists_dicts_and_the_users_objects_at_any_depth() -> None:
    t = torch.ones(1)
    assert places(t) == [""]
    assert places([t, (t, {"a": [t]})]) == ["[0]", "[1][0]", "[1][1]['a'][0]"]
    assert places(Record(stats=Record(mean=t), number=3)) == [".stats.mean"]
    assert places({"layers": [nn.Linear(1, 1)]}) == ["['layers'][0]"]


def test_objects_of_others_and_circles_are_not_followed() -> None:
    circle = Record(t=torch.ones(1))
    circle.itself = circle
    assert places(circle) == [".t"]
    assert places(SimpleNamespace(t=torch.ones(1))) == []
    assert places(len) == []
    assert places(Record) == []


def test_users_packages() -> None:
    class Own(nn.Linear): ...

    assert user_packages(nn.Linear(1, 1)) == frozenset()
    assert user_packages(nn.Sequential(Own(1, 1))) == {__name__.split(".")[0]}
