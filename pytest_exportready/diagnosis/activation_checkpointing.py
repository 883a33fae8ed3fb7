"""`forward` does not use activation checkpointing when the export is strict.

Why it matters:
    Checkpointing saves memory during training only. Strict export cannot trace it and raises an internal error.

Example:
    class Net(nn.Linear):
        def forward(self, x):
            return torch.utils.checkpoint.checkpoint(super().forward, x, use_reentrant=False)

    export_ready_check(Net(4, 4).eval(), (torch.randn(2, 4),), strict=True)

Instead:
    class Net(nn.Linear):
        def forward(self, x):
            return super().forward(x)

    export_ready_check(Net(4, 4).eval(), (torch.randn(2, 4),), strict=True)

Severity:
    error: the export fails.

Not reported:
    Checkpointing in a non-strict export, which runs it.
"""

from __future__ import annotations

from pytest_exportready.case.finding import Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Signs

RULE = Rule("ER404", "no_activation_checkpointing", __doc__ or "")

DIAGNOSIS = Diagnosis.by_signs(
    RULE,
    Signs(
        r"_checkpoint_context_fn|tag_activation_checkpoint|checkpoint not implemented|CheckpointError",
        "`forward` uses activation checkpointing, which strict export cannot trace.",
        "Call the block directly when exporting, or export with `strict=False`.",
    ),
)
