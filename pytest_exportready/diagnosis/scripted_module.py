"""No part of the model is TorchScript (`torch.jit.script` or `torch.jit.trace`).

Why it matters:
    torch.export traces Python code and cannot trace a compiled script.

Example:
    model = nn.Sequential(torch.jit.script(nn.Linear(4, 4)), nn.ReLU()).eval()
    export_ready_check(model, (torch.randn(2, 4),))

Instead:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval()
    export_ready_check(model, (torch.randn(2, 4),))

Severity:
    error: the export fails.
"""

from __future__ import annotations

import torch

from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.case.wording import counted
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER411", "no_scripted_module", __doc__ or "")

_SIGNS = r"Exporting a ScriptModule|torch\.jit\.script/freeze|ScriptMethod|TopLevelTracedModule|TracedModule"
_INDIRECT = r"(?i)forward\(\) takes|marked as skipped|unsupported"


def explain(failure: Failure) -> Finding | None:
    scripted = [name for name, m in failure.module.named_modules() if isinstance(m, torch.jit.ScriptModule)]
    if not (failure.says(_SIGNS) or (scripted and failure.says(_INDIRECT))):
        return None
    return failure.finding(
        RULE,
        f"The model contains {counted(len(scripted), 'TorchScript module')}, which torch.export cannot trace."
        if scripted
        else "`forward` calls TorchScript, which torch.export cannot trace.",
        "Use the original Python module or function instead of `torch.jit.script(...)`.",
        where=scripted[0] or "(root)" if scripted else "",
    )


DIAGNOSIS = Diagnosis(RULE, explain, turn="first")
