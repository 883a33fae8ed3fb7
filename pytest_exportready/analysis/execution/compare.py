"""Compare two outputs: bitwise if possible, else with a tolerance by dtype, relative to the rms of the output."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from pytest_exportready.analysis.execution.pytree import named_leaves, tensors
from pytest_exportready.analysis.module.snapshot import equal_bits
from pytest_exportready.case.facts import BITWISE, COMPARED, COSINE, DECIBEL, JUDGED_BY_FLOAT64, LARGEST


@dataclass(frozen=True)
class Tolerance:
    """The limits by dtype if no field is set."""

    rtol: float | None = None  # |actual - expected| <= atol + rtol * |expected|
    atol: float | None = None
    relative: float | None = None  # largest error relative to the rms, for every floating dtype


# float32 as measured over eager, decomposed, ONNX Runtime, AOTInductor and XNNPACK on small models: largest error
# 2.1e-6 x rms, 126 dB; the limits are five times that. bfloat16: measured 4.7e-2 x rms and 50 dB. float16 has three
# bits more. float64 at the same distance from its epsilon as float32.
_LARGEST = {torch.float32: 1e-5, torch.float64: 2e-14, torch.complex64: 1e-5, torch.complex128: 2e-14,
            torch.bfloat16: 0.25, torch.float16: 0.03}  # fmt: skip
_DECIBEL = {torch.float32: 100.0, torch.float64: 274.0, torch.complex64: 100.0, torch.complex128: 274.0,
            torch.bfloat16: 40.0, torch.float16: 58.0}  # fmt: skip
_SMALL_FLOAT_DECIBEL = 20.0


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison over all outputs."""

    agree: bool  # within the tolerance
    bitwise: bool  # equal to the bit
    where: str = ""  # path of the first output that differs
    problem: str = ""  # how it differs
    largest: float = 0.0  # largest error, relative to the rms of each output
    decibel: float = math.inf  # smallest signal-to-error ratio; inf if equal
    cosine: float = 1.0  # smallest cosine between expected and actual output
    by_float64: bool = False  # they agree because the actual output is as close to float64 as the expected one


def compare(expected: Any, actual: Any, tolerance: Tolerance) -> Comparison:
    """Compare every leaf of ``actual`` with the same leaf of ``expected``.

    Structure, shape, dtype, device, integers and the positions of NaN and Inf must be equal; floating-point values must
    be within ``tolerance``.
    """
    wanted, given = named_leaves(expected), named_leaves(actual)
    if [path for path, _ in wanted] != [path for path, _ in given]:
        return _different(f"structure {[p for p, _ in given][:8]}, expected {[p for p, _ in wanted][:8]}")
    results = [(path, _leaf(a, b, tolerance)) for (path, a), (_, b) in zip(wanted, given, strict=True)]
    worst = next(((path, r) for path, r in results if not r.agree), None)
    return Comparison(
        agree=worst is None,
        bitwise=all(r.bitwise for _, r in results),
        where="" if worst is None else f"output{worst[0]}",
        problem="" if worst is None else worst[1].problem,
        largest=max((r.largest for _, r in results), default=0.0),
        decibel=min((r.decibel for _, r in results), default=math.inf),
        cosine=min((r.cosine for _, r in results), default=1.0),
    )


def _leaf(expected: Any, actual: Any, tolerance: Tolerance) -> Comparison:
    if not isinstance(expected, torch.Tensor) or not isinstance(actual, torch.Tensor):
        return _values(expected, actual, tolerance)
    for what in ("shape", "dtype", "device", "layout"):
        before, after = getattr(expected, what), getattr(actual, what)
        if before != after:
            return _different(f"{what} {_show(after)}, expected {_show(before)}")
    if equal_bits(expected, actual):
        return Comparison(True, True)
    if expected.layout != torch.strided:
        expected, actual = expected.to_dense(), actual.to_dense()
    if not (expected.is_floating_point() or expected.is_complex()):
        differ = int((expected != actual).sum())
        return _different(f"{differ} of {expected.numel()} values differ ({_show(expected.dtype)})")
    return _floats(expected, actual, tolerance)


def summary(results: Sequence[Comparison]) -> dict[str, Any]:
    """Return facts for the report about ``results``.

    The number of comparisons; whether all are bitwise equal; the largest error relative to the output's rms; the
    smallest signal-to-error ratio in dB (None if unbounded) and cosine; how many were judged by float64, if any.
    """
    worst = max((r.largest for r in results), default=0.0)
    decibel = min((r.decibel for r in results), default=math.inf)
    by_float64 = sum(r.by_float64 for r in results)
    return {
        COMPARED: len(results),
        BITWISE: all(r.bitwise for r in results),
        LARGEST: worst if math.isfinite(worst) else None,
        DECIBEL: round(decibel, 1) if math.isfinite(decibel) else None,
        COSINE: min((r.cosine for r in results), default=1.0),
        **({JUDGED_BY_FLOAT64: by_float64} if by_float64 else {}),
    }


def _floats(expected: torch.Tensor, actual: torch.Tensor, tolerance: Tolerance) -> Comparison:
    a, b = wide(expected), wide(actual)
    for name, mask in (("NaN", torch.isnan), ("Inf", torch.isinf)):
        moved = int((mask(a) != mask(b)).sum())
        if moved:
            return _different(f"{name} in different positions ({moved} of {a.numel()} values)")
    infinite = a.isinf()
    if bool((a[infinite] != b[infinite]).any()):
        return _different("Inf with a different sign")
    finite = a.isfinite()
    cosine = _cosine(a[finite], b[finite])
    a, error = a[finite].abs(), (a[finite] - b[finite]).abs()
    rms, noise = root_mean_square(a), root_mean_square(error)
    largest = float(error.max()) if error.numel() else 0.0
    relative = largest / rms if rms else (math.inf if largest else 0.0)
    decibel = 20 * (math.log10(rms) - math.log10(noise)) if rms and noise else (-math.inf if noise else math.inf)
    if tolerance.rtol is not None or tolerance.atol is not None:
        rtol, atol = tolerance.rtol or 0.0, tolerance.atol or 0.0
        agree, limit = bool((error <= atol + rtol * a).all()), f"rtol={rtol:g}, atol={atol:g}"
    elif tolerance.relative is not None:
        agree, limit = relative <= tolerance.relative, f"{tolerance.relative:g} x"
    else:
        kind = expected.dtype
        most, least = _LARGEST.get(kind, math.inf), _DECIBEL.get(kind, _SMALL_FLOAT_DECIBEL)
        agree, limit = relative <= most and decibel >= least, f"{most:g} x ({least:g} dB)"
    problem = (
        "" if agree else f"largest error {relative:.2g} x output rms (signal to error {decibel:.0f} dB), limit {limit}"
    )
    return Comparison(agree, False, "", problem, relative, decibel, cosine)


def has_nan(output: Any) -> bool:
    """Return whether a tensor in ``output`` has a NaN."""
    return any((t.is_floating_point() or t.is_complex()) and bool(t.isnan().any()) for t in tensors(output))


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """Return ``tensor`` as float64 on the CPU, a complex number as two."""
    tensor = tensor.detach().cpu()
    return torch.view_as_real(tensor.to(torch.complex128)) if tensor.is_complex() else tensor.to(torch.float64)


def root_mean_square(values: torch.Tensor) -> float:
    """Return the root mean square of absolute values; scaled, so that no square overflows or underflows."""
    top = float(values.max()) if values.numel() else 0.0
    return top * float((values / top).square().mean().sqrt()) if top else 0.0


def _cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    """Return the cosine of the angle between two outputs of any scale; 1 for two zeros, 0 if only one is zero."""
    size_a, size_b = float(a.abs().max()) if a.numel() else 0.0, float(b.abs().max()) if b.numel() else 0.0
    if not size_a or not size_b:
        return float(size_a == size_b)
    a, b = a / size_a, b / size_b  # so that no square overflows or underflows
    return min(1.0, float((a * b).sum() / (a.square().sum() * b.square().sum()).sqrt()))


def _values(expected: Any, actual: Any, tolerance: Tolerance) -> Comparison:
    if type(expected) is not type(actual):
        return _different(f"{type(actual).__name__}, expected {type(expected).__name__}")
    if expected is actual:
        return Comparison(True, True)
    if hasattr(expected, "__dict__") and not callable(expected):
        return compare(vars(expected), vars(actual), tolerance)  # a class that is not registered as a pytree
    try:
        same = bool(expected == actual or (expected != expected and actual != actual))
    except Exception:
        return _different(f"{type(expected).__name__} values that cannot be compared")
    if same:
        return Comparison(True, True)
    if isinstance(expected, (bool, int, float)):
        return _different(f"{actual}, expected {expected}")
    return _different(f"a different {type(expected).__name__}")


def _different(problem: str) -> Comparison:
    return Comparison(False, False, "", problem, math.inf, -math.inf)


def _show(value: object) -> str:
    return str(tuple(value)) if isinstance(value, torch.Size) else str(value).replace("torch.", "")
