"""A part of the model is TorchScript (``torch.jit.script`` or ``trace``), which torch.export cannot look into.

Good: give the export the Python module that was scripted.
"""

from __future__ import annotations

import re

import torch

from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import counted, few
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER411", "no_scripted_module", __doc__ or "")

_SIGNS = re.compile(
    r"Exporting a ScriptModule|torch\.jit\.script/freeze|ScriptMethod|TopLevelTracedModule|TracedModule"
)
_ROUNDABOUT = re.compile(r"forward\(\) takes|marked as skipped|unsupported", re.IGNORECASE)


def explain(failure: Failure) -> Finding | None:
    scripted = [name for name, m in failure.module.named_modules() if isinstance(m, torch.jit.ScriptModule)]
    if not (failure.says(_SIGNS) or (scripted and failure.says(_ROUNDABOUT))):
        return None
    return failure.finding(
        RULE,
        few(scripted[:1]) if scripted else "",
        f"{counted(len(scripted), 'module')} in TorchScript, which torch.export cannot look into"
        if scripted
        else "forward runs TorchScript, which torch.export cannot look into",
        "put the Python module or function in its place: keep the original instead of torch.jit.script(...)",
    )


DIAGNOSIS = Diagnosis(RULE, explain, turn="first")
