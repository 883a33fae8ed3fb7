"""`forward` does not call a GradScaler.

Why it matters:
    Loss scaling belongs to the training step. Strict export cannot trace it, and a program would contain the scale.

Example:
    class Net(nn.Linear):
        scaler = torch.amp.GradScaler("cpu")

        def forward(self, x):
            return self.scaler.scale(super().forward(x))

    export_ready_check(Net(4, 4).eval(), (torch.randn(2, 4),), strict=True)

Instead:
    class Net(nn.Linear):
        def forward(self, x):
            return super().forward(x)

    export_ready_check(Net(4, 4).eval(), (torch.randn(2, 4),), strict=True)

Severity:
    error: the export fails.
"""

from __future__ import annotations

from pytest_exportready.case.finding import Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Signs

RULE = Rule("ER414", "no_grad_scaler_in_forward", __doc__ or "")

DIAGNOSIS = Diagnosis.by_signs(
    RULE,
    Signs(
        r"\bGradScaler\b",
        "`forward` calls a GradScaler.",
        "Scale the loss in the training loop, and remove the scaler from the module.",
        files=("amp/grad_scaler.py",),
    ),
)
