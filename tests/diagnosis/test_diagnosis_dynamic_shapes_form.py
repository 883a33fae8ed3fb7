"""Diagnosis dynamic_shapes_form."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from pytest_exportready import export_ready_check

NET, X = nn.Linear(2, 2).eval(), torch.ones(3, 2)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    "shapes",
    [
        {"y": {0: Dim("b")}},
        {"input": {0: "batch"}},
        {"input": [{0: Dim("b")}]},
        ({0: Dim("b")}, {0: Dim("b")}),
        {"input": (Dim("b"),)},
    ],
)
def test_a_wrong_form_names_the_inputs(shapes: Any, strict: bool) -> None:
    """Unknown argument, no Dim, no such dimension, another structure: the inputs and a right example are told."""
    (finding,) = export_ready_check(NET, (X,), dynamic_shapes=shapes, strict=strict, stages=["export"]).errors
    assert (finding.code, finding.where) == ("ER405", "dynamic_shapes")
    assert "input (2 dimensions)" in finding.message
    assert 'Dim("batch")' in finding.fix


@pytest.mark.parametrize(("strict", "code"), [(False, "ER405"), (True, "ER122")])
@pytest.mark.parametrize("dim", [2, 5, -3])
def test_a_dimension_that_is_not_there(dim: int, strict: bool, code: str) -> None:
    """Non-strict export stumbles over it, strict export does not notice: the argument and its dimensions are told."""
    shapes = {"input": {dim: Dim("b")}}
    (finding,) = export_ready_check(NET, (X,), dynamic_shapes=shapes, strict=strict, stages=["export"]).errors
    assert finding.code == code
    assert "input" in finding.message


def test_a_right_form() -> None:
    assert export_ready_check(NET, (X,), dynamic_shapes={"input": {0: Dim("b")}}, stages=["export"]).ready
