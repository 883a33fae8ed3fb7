"""What is said of an export that fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from pytest_exportready.analysis.execution.trial import Trial
from pytest_exportready.case.export_case import ExportCase
from pytest_exportready.case.finding import Finding
from pytest_exportready.case.options import CaseOptions
from pytest_exportready.diagnosis import diagnose
from pytest_exportready.diagnosis._diagnosis import Failure


def _diagnosed(model: Any, *args: Any, strict: bool = False, dynamic_shapes: Any = None) -> Finding | None:
    try:
        torch.export.export(model, args, dynamic_shapes=dynamic_shapes, strict=strict)
    except Exception as error:
        error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next  # this file is none of the user's
        options = CaseOptions(dynamic_shapes=dynamic_shapes)
        trial = Trial(ExportCase(model, args), options, "strict" if strict else "non-strict")
        return diagnose(Failure(error, model, trial))
    return None


@pytest.fixture
def diagnosed() -> Callable[..., Finding | None]:
    """``diagnosed(model, *args, strict=..., dynamic_shapes=...)``: None if the export succeeds. Nothing is prepared
    first, so that wrappers and hooks are in the way."""
    return _diagnosed
