"""Tensors that meet in one operator have dtypes that it supports.

Why it matters:
    Operators refuse mixed dtypes, and so do their fake kernels, which the export runs.

Example:
    class Net(nn.Module):
        def forward(self, x):
            y = x.half() if torch.compiler.is_exporting() else x
            return torch.bmm(x, y)

    export_ready_check(Net().eval(), (torch.randn(2, 4, 4),))

Instead:
    class Net(nn.Module):
        def forward(self, x):
            return torch.bmm(x, x)

    export_ready_check(Net().eval(), (torch.randn(2, 4, 4),))

Severity:
    error: the export fails.
"""

from __future__ import annotations

from pytest_exportready.case.finding import Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Signs

RULE = Rule("ER416", "one_dtype", __doc__ or "")

DIAGNOSIS = Diagnosis.by_signs(
    RULE,
    Signs(
        r"following scalar types: Long|Expected dtype int32/int64 for index|used as indices must be",
        "A tensor of indices does not have an integer dtype.",
        "Convert the indices with `.long()`, or give example inputs of dtype `torch.long`.",
    ),
    Signs(
        r"[Ss]ame d?type|[Dd]types must be the same|expected scalar type [\w.]+ but found|expected dtype [\w.]+ for"
        r"|Expected self\.dtype|input dtype \([\w.]+\) does not match|Input type \(.*\) and (?:weight|bias) type"
        r"|could not infer output dtype|Unsupported dtype|Autograd not support dtype",
        "An operator received tensors of different dtypes, or of a dtype that it does not support.",
        "Cast once at the entry, `x = x.to(self.weight.dtype)`, or call `model.float()` before exporting.",
    ),
)
