from __future__ import annotations

import pytest
import torch
from torch import nn

from pytest_exportready.case.finding import Finding
from pytest_exportready.checks._check import Subject
from pytest_exportready.checks.values_finite import inspect


def judge(model: nn.Module) -> list[Finding]:
    return list(inspect(Subject(model.eval())))


def net(value: float, dtype: torch.dtype = torch.float32) -> nn.Module:
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    with torch.no_grad():
        model[1].weight[1, 0] = value
    return model.to(dtype)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_names_the_weight(value: float, dtype: torch.dtype) -> None:
    (finding,) = judge(net(value, dtype))
    assert (finding.severity, finding.where) == ("error", "1.weight")


def test_half_overflow_says_bfloat16() -> None:
    (finding,) = judge(net(1e5).half())
    assert "bfloat16" in finding.fix
    assert judge(net(1e5).bfloat16()) == []


def test_masks_may_be_infinite_but_not_nan() -> None:
    model = nn.Linear(2, 2)
    model.register_buffer("mask", torch.full((3, 3), float("-inf")))
    model.register_buffer("limits", torch.tensor([float("-inf"), 0.0, float("inf")]))
    assert judge(model) == []
    model.register_buffer("mask", torch.full((3, 3), float("nan")))
    assert [f.where for f in judge(model)] == ["mask"]


def test_statistics_of_norms_are_told_by_batchnorm_frozen() -> None:
    norm = nn.BatchNorm1d(2)
    norm.running_var.fill_(float("nan"))
    assert judge(nn.Sequential(norm)) == []
