"""Define the decorator ``export_ready``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

if TYPE_CHECKING:
    from pytest_exportready.case.export_case import Returned

F = TypeVar("F", bound="Callable[..., Returned] | type[Any]")
Lowering = Literal["decompose", "aotinductor", "onnx", "executorch"]


@overload
def export_ready(function: F) -> F: ...
@overload
def export_ready(
    *,
    dynamic_batch: bool = ...,
    dynamic_shapes: Any = ...,
    scenarios: str | Sequence[str] = ...,
    strict: bool | Literal["non-strict", "strict", "both"] = ...,
    tolerance: Mapping[Literal["rtol", "atol"], float] = ...,
    stages: str | Sequence[str] = ...,
    ignore: str | Sequence[str] = ...,
    reason: str = ...,
    xfail_stage: str = ...,
    lower: Lowering | Sequence[Lowering] = ...,
    budget: Mapping[Literal["seconds", "mib", "nodes", "gpu_mib"], float] = ...,
    devices: str | Sequence[str] = ...,
) -> Callable[[F], F]: ...
def export_ready(function: F | None = None, **arguments: Any) -> F | Callable[[F], F]:
    """Mark a function or method as an export case: ``@export_ready`` or ``@export_ready(dynamic_batch=True)``.

    The function returns ``(model, args)``, ``(model, args, kwargs)`` or an ExportCase; it takes fixtures and
    parameters as any test does. The same as ``@pytest.mark.export_ready(...)``. Arguments of the markers on a module,
    class, function and parameter are merged; the closest takes precedence.

    Args:
        dynamic_batch: Dimension 0 of the example tensors may have any size.
        dynamic_shapes: As for ``torch.export.export``, or ``"auto"`` to find out what can be dynamic. Not together
            with ``dynamic_batch``.
        scenarios: How the model is trained before the export, such as ``["plain"]``; ``["as_is"]`` does not train.
        strict: ``"non-strict"`` (default), ``"strict"`` or ``"both"``; also False and True.
        tolerance: ``{"rtol": ..., "atol": ...}`` instead of the per-dtype tolerances.
        stages: Run only these stages and those that they need.
        ignore: Codes such as ``["ER305"]`` that do not count, with a ``reason``.
        xfail_stage: The stage at which this case is expected to fail, with a ``reason``; passing it is a failure.
        lower: Lower the program with these, and compare the outputs: ``["decompose", "aotinductor", "onnx",
            "executorch"]``.
        budget: Limits of the export, any of ``{"seconds": ..., "mib": ..., "nodes": ..., "gpu_mib": ...}``: seconds of
            ``torch.export``, MiB of the saved program, nodes of its graph, MiB of GPU memory for the example inputs.
        devices: Run the case once on each of these devices, ``["cpu", "cuda"]``, to which its model and inputs are
            moved. With ``--export-ready-device``, on those of that option that are named here.
    """
    import pytest

    mark: Callable[[F], F] = pytest.mark.export_ready(**arguments)
    return mark if function is None else mark(function)
