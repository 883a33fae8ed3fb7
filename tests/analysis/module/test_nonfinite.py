"""Values are read once: nothing as large as a tensor is allocated."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pytest_exportready.analysis.module.nonfinite import not_finite
from pytest_exportready.analysis.torch_internals.tensors import each_operator

LARGE = 2**17


def large(where: int | None, value: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    tensor = torch.zeros(LARGE, dtype=dtype)
    if where is not None:
        tensor[where] = value
    return tensor


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_large_and_small_in_the_order_given(dtype: torch.dtype, value: float) -> None:
    tensors = {
        "fine": large(None, 0, dtype),
        "last": large(LARGE - 1, value, dtype),
        "small": torch.full((3,), value, dtype=dtype),
        "first": large(0, value, dtype),
        "small and fine": torch.ones(3, dtype=dtype),
    }
    assert not_finite(tensors) == ["last", "small", "first"]


def test_layouts_and_kinds() -> None:
    nan = torch.full((2, 2), float("nan"))
    tensors = {
        "transposed": torch.zeros(2, LARGE).t(),
        "transposed and broken": large(5, float("nan")).view(2, -1).t(),
        "integers": torch.ones(3, dtype=torch.int64),
        "empty": torch.empty(0),
        "meta": torch.empty(3, device="meta"),
        "8 bits": torch.ones(3).to(torch.float8_e4m3fn),
        "sparse": nan.to_sparse(),
        "conjugate": torch.full((2,), complex(float("nan"), 1)).conj(),
    }
    assert not_finite(tensors) == ["transposed and broken", "conjugate"]


@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
def test_no_operator_makes_anything_large(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_exportready.analysis.module.nonfinite._BLOCK", 2**12)
    tensor = torch.zeros(2, LARGE) if layout == "contiguous" else torch.zeros(LARGE, 2).t()
    memory = tensor.untyped_storage().data_ptr()
    made: list[int] = []

    def note(operator: Any, args: Any, kwargs: Any) -> Any:
        result = operator(*args, **kwargs)
        for part in result if isinstance(result, tuple) else (result,):
            if isinstance(part, torch.Tensor) and part.untyped_storage().data_ptr() != memory:
                made.append(part.numel())
        return result

    with each_operator(note):
        assert not_finite({"tensor": tensor}) == []
    assert max(made) <= 2**12
