"""Comparison: wrong outputs are rejected at every scale and in every dtype, numerical noise is not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from pytest_exportready.analysis.execution.compare import Tolerance, compare, has_nan, root_mean_square

STRICT = Tolerance()
NAN, INF = float("nan"), float("inf")


def values(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)


X = values(4, 4)

REJECTED: dict[str, tuple[Any, Any]] = {
    "zeros for a tiny output": (X * 1e-9, torch.zeros(4, 4)),
    "zeros for a huge float64 output": (X.double() * 1e200, torch.zeros(4, 4).double()),
    "noise on a huge float64 output": (X.double() * 1e200, X.double() * 1.001e200),
    "zeros for a vanishing float64 output": (X.double() * 1e-200, torch.zeros(4, 4).double()),
    "twice the output": (X, 2 * X),
    "one value of many": (values(10000), torch.cat([torch.zeros(1), values(10000)[1:]])),
    "one value of many in bfloat16": (
        values(100000).bfloat16(),
        torch.cat([torch.full((1,), 5.0), values(100000)[1:]]).bfloat16(),
    ),
    "a broadcastable shape": (values(4, 1), values(4, 1).expand(4, 4)),
    "another dtype": (X, X.double()),
    "another device": (X, X.to("meta")),
    "another layout": (X, X.to_sparse()),
    "NaN appears": (X, torch.where(X.eq(X[0, 0]), NAN, X)),
    "NaN disappears": (torch.where(X.eq(X[0, 0]), NAN, X), X),
    "Inf moves": (torch.tensor([INF, 1.0]), torch.tensor([1.0, INF])),
    "Inf of another sign": (torch.tensor([INF, 1.0]), torch.tensor([-INF, 1.0])),
    "complex Inf of another sign": (torch.tensor([complex(INF, 0), 1]), torch.tensor([complex(-INF, 0), 1])),
    "an integer": (torch.arange(3), torch.tensor([0, 1, 3])),
    "a bool": (torch.tensor([True, False]), torch.tensor([True, True])),
    "int for bool": (torch.tensor([1, 0]), torch.tensor([True, False])),
    "complex phase": (torch.tensor([1 + 1j]), torch.tensor([1 - 1j])),
    "sparse values": (torch.eye(3).to_sparse(), (2 * torch.eye(3)).to_sparse()),
    "a missing output": ((X, X), (X,)),
    "another order of a dict's keys with other values": ({"a": X, "b": -X}, {"a": -X, "b": X}),
    "tensor for None": ((X, None), (X, X)),
    "None for tensor": ((X, X), (X, None)),
    "a Python number": ((X, 3), (X, 4)),
    "True for 1": ((X, 1), (X, True)),
    "number for NaN": (NAN, 3.0),
    "NaN for number": (3.0, NAN),
    "a string": ("a", "b"),
    "empty of another shape": (torch.empty(0, 3), torch.empty(0, 4)),
    "the second output only": ((X, X), (X, X + 1)),
}


@pytest.mark.parametrize("name", REJECTED)
def test_rejected(name: str) -> None:
    """The problem never has values of tensors."""
    expected, actual = REJECTED[name]
    result = compare(expected, actual, STRICT)
    assert not result.agree
    assert not result.bitwise
    assert result.problem
    assert "tensor(" not in result.problem


EQUAL: dict[str, Any] = {
    "floats": X,
    "NaN in the same places": torch.tensor([NAN, 1.0, INF]),
    "nested": {"a": [X, (None, 3, "s", True)], "b": NAN},
    "empty": torch.empty(0, 3),
    "integers": torch.arange(3),
    "complex": torch.tensor([1 + 1j, complex(NAN, 0)]),
    "float8": X.to(torch.float8_e4m3fn),
    "sparse": torch.eye(3).to_sparse(),
    "nothing": (),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal_is_bitwise(name: str) -> None:
    value = EQUAL[name]
    copied = value.clone() if isinstance(value, torch.Tensor) else value
    result = compare(value, copied, STRICT)
    assert (result.agree, result.bitwise, result.largest, result.decibel) == (True, True, 0.0, math.inf)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_quantized() -> None:
    """Quantized tensors are compared as integers."""
    quantised = torch.quantize_per_tensor(X, 0.1, 0, torch.qint8)
    assert compare(quantised, quantised.clone(), STRICT).bitwise
    assert not compare(quantised, torch.quantize_per_tensor(X * 2, 0.1, 0, torch.qint8), STRICT).agree


@pytest.mark.parametrize(
    ("dtype", "noise", "agrees"),
    [
        (torch.float32, 2e-6, True),
        (torch.float32, 1e-4, False),
        (torch.float64, 2e-15, True),
        (torch.float64, 1e-10, False),
        (torch.bfloat16, 3e-3, True),
        (torch.bfloat16, 5e-2, False),
        (torch.float16, 4e-4, True),
        (torch.float16, 1e-2, False),
        (torch.float8_e4m3fn, 4e-2, True),
        (torch.float8_e4m3fn, 0.5, False),
        (torch.complex64, 2e-6, True),
        (torch.complex64, 1e-4, False),
    ],
)
@pytest.mark.parametrize("scale", [1e-2, 1.0, 1e2])
def test_noise_by_dtype_at_every_scale(dtype: torch.dtype, noise: float, agrees: bool, scale: float) -> None:
    """The limit is relative to the rms of the output: the verdict is the same at every scale."""
    wide = torch.complex128 if dtype.is_complex else torch.float64
    base = torch.linspace(0.5, 1.5, 64, dtype=torch.float64).to(wide)
    signs = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(32)
    expected, actual = (base * scale).to(dtype), (base * scale + signs * noise * scale).to(dtype)
    result = compare(expected, actual, STRICT)
    assert not result.bitwise
    assert result.agree is agrees


def test_rtol_and_atol() -> None:
    """As in torch.testing, each alone or both; structure and NaN must still be equal."""
    expected = torch.tensor([1.0, 100.0])
    assert compare(expected, expected * 1.05, Tolerance(rtol=0.1)).agree
    assert not compare(expected, expected * 1.05, Tolerance(rtol=0.01)).agree
    assert compare(expected, expected + 0.5, Tolerance(atol=1.0)).agree
    assert not compare(expected, expected + 0.5, Tolerance(rtol=0.0, atol=0.1)).agree
    assert not compare(expected, torch.tensor([1.0, NAN]), Tolerance(rtol=1e9, atol=1e9)).agree
    assert compare(expected, expected * 1.0005, Tolerance(relative=1e-3)).agree


def test_the_first_bad_output_is_named() -> None:
    """By its path, with error and limit."""
    result = compare({"a": [X, X]}, {"a": [X, X * 1.01]}, STRICT)
    assert result.where == "output['a'][1]"
    assert result.problem.startswith("largest error ")
    assert result.problem.endswith("limit 1e-05 x (100 dB)")


def test_objects_that_torch_does_not_know() -> None:
    """They are compared by their attributes, not by identity."""

    class Plain:
        def __init__(self, x: torch.Tensor) -> None:
            self.x = x

    @dataclass
    class Data:
        x: torch.Tensor

    for kind in (Plain, Data):
        assert compare(kind(X), kind(X.clone()), STRICT).bitwise
        assert not compare(kind(X), kind(X + 1), STRICT).agree


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.complex64])
def test_has_nan(dtype: torch.dtype) -> None:
    """In any tensor of an output, also a sparse one; other objects have none."""
    whole, holed = torch.ones(2).to(dtype), torch.tensor([1.0, float("nan")]).to(dtype)
    assert has_nan({"a": [whole, holed]})
    assert not has_nan((whole, {"b": 1, "c": "nan", "d": torch.tensor([1])}))
    assert has_nan(torch.tensor([[float("nan"), 0.0]]).to_sparse())


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_root_mean_square_of_any_size(scale: float) -> None:
    """No square overflows or underflows."""
    values = torch.tensor([3.0, 4.0], dtype=torch.float64) * scale
    assert root_mean_square(values) == pytest.approx(math.sqrt(12.5) * scale)
    assert root_mean_square(values[:0]) == root_mean_square(values * 0) == 0.0
