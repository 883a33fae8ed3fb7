"""The verdict on a module at hand, in a script or a notebook, without pytest."""

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
    """Is ``model``, as it came out of training, ready for torch.export? Nothing is trained; the model is
    left as it was.

    example_inputs, example_kwargs: inputs of ``model.forward``. dynamic_shapes: torch.export's own form.
    strict: False (non-strict export), True, or ``"both"``. skip_ddp_validation: do not look for wrappers and
    hooks of distributed training, nor compare the ranks; the proofs are made on the module under the wrapper all the
    same. lower, budget: as for the marker ``export_ready``.
    knowledge: the other fields of ExportCase by name (``more_inputs``, ``checkpoint``, ``golden``, ...).

    Raises CaseError for arguments that cannot be understood. Returns a Readiness; print it for the overview.
    """
    case = as_case(ExportCase(model, example_inputs, example_kwargs or {}, **knowledge))
    arguments = {"dynamic_shapes": dynamic_shapes, "dynamic_batch": dynamic_batch, "strict": strict,
                 "tolerance": tolerance, "stages": stages, "lower": lower, "budget": budget}  # fmt: skip
    options = case_options(arguments, scenarios=(), stages=all_stages(), codes=())
    if skip_ddp_validation:
        options = replace(options, ignore=("ER303",), reason="skip_ddp_validation=True")
    return judge(case, options, name=type(model).__name__, rank_timeout=0.0 if skip_ddp_validation else RANK_TIMEOUT)
