"""Check a module in a script or a notebook, without pytest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_exportready.case.export_case import ExportCase, as_case
from pytest_exportready.case.options import case_options
from pytest_exportready.case.readiness import Readiness
from pytest_exportready.judge.judge import RANK_TIMEOUT, judge
from pytest_exportready.stages import all_stages

if TYPE_CHECKING:
    from torch import nn


def export_ready_check(
    model: nn.Module,
    example_inputs: tuple[Any, ...],
    *,
    example_kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    dynamic_batch: bool = False,
    strict: bool | str = False,
    skip_ddp_validation: bool = False,
    tolerance: Mapping[str, float] | None = None,
    stages: Sequence[str] | None = None,
    lower: Sequence[str] | None = None,
    budget: Mapping[str, float] | None = None,
    **knowledge: Any,
) -> Readiness:
    """Return whether ``model``, as it came out of training, is ready for ``torch.export``.

    The model is not trained, and is left as it was. Print the result for the overview.

    Args:
        example_inputs: Positional inputs of ``model.forward``.
        example_kwargs: Keyword inputs of ``model.forward``.
        dynamic_shapes: As for ``torch.export.export``.
        dynamic_batch: Dimension 0 of the example tensors may have any size.
        strict: False (non-strict export), True, or ``"both"``.
        skip_ddp_validation: Do not check for wrappers and hooks of distributed training, and do not compare the ranks.
            The module inside the wrapper is exported.
        tolerance: ``{"rtol": ..., "atol": ...}`` instead of the per-dtype tolerances.
        stages: As for the marker ``export_ready``; so are ``lower`` and ``budget``.
        knowledge: The other fields of ExportCase by name (``more_inputs``, ``checkpoint``, ``golden``, ...).

    Raises:
        CaseError: The arguments are not accepted.
    """
    case = as_case(ExportCase(model, example_inputs, example_kwargs or {}, **knowledge))
    arguments = {"dynamic_shapes": dynamic_shapes, "dynamic_batch": dynamic_batch, "strict": strict,
                 "tolerance": tolerance, "stages": stages, "lower": lower, "budget": budget}  # fmt: skip
    options = case_options(arguments, scenarios=(), stages=all_stages(), codes=())
    if skip_ddp_validation:
        options = replace(options, ignore=("ER303",), reason="skip_ddp_validation=True")
    return judge(case, options, name=type(model).__name__, rank_timeout=0.0 if skip_ddp_validation else RANK_TIMEOUT)
