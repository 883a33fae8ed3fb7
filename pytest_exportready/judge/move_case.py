"""Move a case to another device."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from pytest_exportready.analysis.execution.pytree import map_tensors
from pytest_exportready.case.export_case import CaseError, ExportCase
from pytest_exportready.case.sanitize import exception_text


def moved(case: ExportCase, device: torch.device) -> ExportCase:
    """Return the case with its inputs and its golden output copied to ``device``, and its model moved there.

    The checkpoint stays. A model stays, too, if it is spread over several GPUs, or if it is not initialized.

    Raises:
        CaseError: The model cannot be moved.
        torch.OutOfMemoryError: It does not fit.
    """
    copies: dict[int, Tensor] = {}

    def to_device(tensor: Tensor) -> Tensor:
        if id(tensor) not in copies:
            copies[id(tensor)] = tensor.detach().to(device).requires_grad_(tensor.requires_grad)
        return copies[id(tensor)]

    tensors = list(chain(case.model.parameters(), case.model.buffers()))
    gpus = {tensor.device for tensor in tensors if tensor.device.type == device.type != "cpu"}
    if len(gpus) < 2 and not any(tensor.is_meta for tensor in tensors):
        try:
            case.model.to(device)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            fix = "Let `model.to(device)` work, or leave this device out of `devices=`."
            raise CaseError(f"The model cannot be moved to {device}: {exception_text(error)}", fix) from error
    given: dict[str, Any] = {"args": case.args, "kwargs": case.kwargs, "golden": case.golden}
    given["more_inputs"] = case.more_inputs
    return replace(case, **{name: map_tensors(to_device, value) for name, value in given.items()})
