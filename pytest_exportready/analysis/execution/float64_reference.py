"""Judge two outputs that differ by a third: the output of the same module in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from pytest_exportready.analysis.execution.call import Call, run
from pytest_exportready.analysis.execution.compare import Comparison, Tolerance, compare, root_mean_square
from pytest_exportready.analysis.execution.pytree import map_tensors, named_leaves
from pytest_exportready.analysis.module.copying import faithful_copy

_FACTOR = 3.0
"""A program may be this many times as far from float64 as the eager module, by root mean square.

An ill-conditioned module is itself far from float64, and a program that adds in another order is as far in another
direction. Measured over eager, decomposed, ONNX Runtime and AOTInductor on small models, correct programs are at most
2.01 times as far.
"""


def compare_by_float64(
    module: nn.Module, calls: list[Call], expected: Any, actual: Any, tolerance: Tolerance
) -> Comparison:
    """Compare as ``compare`` does; compare outputs beyond the default tolerance with float64 as well.

    Args:
        module: the trained module in eval mode.
        calls: the calls up to the one that gave ``expected`` and ``actual``.
    """
    result = compare(expected, actual, tolerance)
    if result.agree or tolerance != Tolerance() or not no_further_from_float64(module, calls, expected, actual):
        return result
    return replace(result, agree=True, where="", problem="", by_float64=True)


def no_further_from_float64(module: nn.Module, calls: list[Call], expected: Any, actual: Any) -> bool:
    """Return whether ``actual`` is about as close to the module's float64 output for the last of ``calls`` as
    ``expected``, its own output, is.

    Each output is judged on its own; integers and the positions of NaN and Inf must be equal. False if the module
    cannot be copied or run in float64.
    """
    try:
        wide = faithful_copy(module)[0].eval().double()
        exact = run(wide, [map_tensors(_double, (tuple(args), dict(kwargs))) for args, kwargs in calls])[-1]
    except Exception:
        return False
    outputs = [named_leaves(output) for output in (exact, expected, actual)]
    if len({tuple(path for path, _ in leaves) for leaves in outputs}) > 1:
        return False
    return all(_as_close(*(leaf for _, leaf in leaves)) for leaves in zip(*outputs, strict=True))


def _as_close(exact: Any, expected: Any, actual: Any) -> bool:
    if not (isinstance(expected, torch.Tensor) and (expected.is_floating_point() or expected.is_complex())):
        return compare(expected, actual, Tolerance()).agree
    if not isinstance(actual, torch.Tensor) or not exact.shape == expected.shape == actual.shape:
        return False
    if expected.dtype != actual.dtype or expected.device != actual.device:
        return False
    a, b = _double(expected), _double(actual)
    finite = a.isfinite() & exact.isfinite()
    if not bool((a[~finite] == b[~finite]).logical_or(a[~finite].isnan() & b[~finite].isnan()).all()):
        return False
    a, b, exact = a[finite], b[finite], exact[finite]
    rounding = torch.finfo(expected.dtype).eps * root_mean_square(exact.abs()) / 2
    own_error = root_mean_square((a - exact).abs())
    return root_mean_square((b - exact).abs()) <= _FACTOR * max(own_error, rounding)


def _double(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor
