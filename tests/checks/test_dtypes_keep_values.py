from __future__ import annotations

import pytest
import torch
from torch import nn

from pytest_exportready.checks._check import Subject
from pytest_exportready.checks.dtypes_keep_values import inspect


def judge(buffer: torch.Tensor, dtype: torch.dtype) -> list[tuple[str, str]]:
    model = nn.Module()
    model.register_buffer("ids", buffer)
    return [(f.severity, f.where) for f in inspect(Subject(model.to(dtype)))]


@pytest.mark.parametrize(("dtype", "exact"), [(torch.float16, 2048), (torch.bfloat16, 256)])
def test_counts_beyond_what_the_dtype_can_tell_apart(dtype: torch.dtype, exact: int) -> None:
    assert judge(torch.arange(float(exact + 1)), dtype) == []
    assert judge(torch.arange(float(exact + 3)), dtype) == [("error", "ids")]
    assert judge(torch.arange(float(exact + 3)).expand(1, -1), dtype) == [("error", "ids")]
    assert judge(torch.arange(1.0, exact + 3.0), dtype) == [("error", "ids")]


@pytest.mark.parametrize(
    "buffer",
    [
        torch.arange(5000),
        torch.arange(0.0, 10000.0, 2.0),
        torch.randn(5000),
        torch.full((5000,), 4096.0),
        torch.tensor([4096.0, 8192.0]),
        torch.eye(70),
    ],
    ids=["integers", "even numbers", "real numbers", "one number", "two numbers", "matrix"],
)
def test_look_alikes_are_clean(buffer: torch.Tensor) -> None:
    assert judge(buffer, torch.float16) == []


def test_full_precision_is_no_matter() -> None:
    assert judge(torch.arange(5000.0), torch.float32) == []
