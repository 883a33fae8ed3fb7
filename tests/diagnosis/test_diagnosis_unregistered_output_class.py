"""Diagnosis unregistered_output_class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pytest_exportready import export_ready_check

X = torch.ones(2, 3)


@dataclass
class Output:
    logits: Tensor


class DynamicCache:
    def __init__(self) -> None:
        self.keys: list[Tensor] = []

    def get_seq_length(self) -> int:
        return len(self.keys)


class Net(nn.Module):
    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function
        self.config = SimpleNamespace(use_cache=True)

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("function", "where", "fix"),
    [
        (lambda x: Output(x * 2), "output (class Output)", "register_dataclass(Output)"),
        (
            lambda x: {"logits": x * 2, "past": DynamicCache()},
            "output['past'] (class DynamicCache)",
            "use_cache=False",
        ),
        (lambda x: (x * 2, [DynamicCache()]), "output[1][0] (class DynamicCache)", "use_cache=False"),
        (lambda x: {x * 2}, "output (class set)", "tuple, list or dict"),
    ],
)
def test_the_output_is_named(function: Any, where: str, fix: str, strict: bool) -> None:
    """Its path and class, and what mends it: a registration, the configuration, another container."""
    (finding,) = export_ready_check(Net(function).eval(), (X,), strict=strict, stages=["export"]).errors
    assert (finding.code, finding.where) == ("ER426", where)
    assert fix in finding.fix


@pytest.mark.parametrize("strict", [False, True])
def test_containers_of_tensors_are_known(strict: bool) -> None:
    def function(x: Tensor) -> Any:
        return {"logits": x * 2, "rest": (x, None, [x + 1])}

    assert export_ready_check(Net(function).eval(), (X,), strict=strict, stages=["export"]).ready
