"""The functions given to `torch.cond`, `map`, `scan` and `while_loop` fit together and have no side effects.

Why it matters:
    The exported program contains all of them. They must take the same operands and return new tensors of the same
    shape and dtype.

Example:
    class Net(nn.Module):
        def forward(self, x):
            if not torch.compiler.is_exporting():
                return x * 2
            return torch.cond(x.sum() > 0, lambda x: x.double(), lambda x: x * 2, (x,))

    export_ready_check(Net().eval(), (torch.randn(2, 4),))

Instead:
    class Net(nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: x * 3, lambda x: x * 2, (x,))

    export_ready_check(Net().eval(), (torch.randn(2, 4),))

Severity:
    error: the export fails.
"""

from __future__ import annotations

from pytest_exportready.case.finding import Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Signs

RULE = Rule("ER423", "cond_branches_agree", __doc__ or "")

DIAGNOSIS = Diagnosis.by_signs(
    RULE,
    Signs(
        r"true_fn and false_fn|Expect(?:ed)? (?:both )?branches|UncapturedHigherOrderOpError|combine_fn|while_loop's",
        "The functions that this line passes to `torch.cond`, `map`, `scan` or `while_loop` do not fit together.",
        "Return new tensors of equal shape and dtype from each function: `x.clone()`, not `x`. Pass every tensor that"
        " it uses as an operand, and do not modify tensors or variables of the code around it.",
        files=("_higher_order_ops/cond.py",),
    ),
)
