"""Activation checkpointing is still on: strict export trips over it with an internal key error.

It only saves training memory. Good: call the block directly when the model is exported, or ``strict=False``.
"""

from __future__ import annotations

from pytest_exportready.diagnose import Diagnosis, Failure
from pytest_exportready.finding import Finding, Rule

RULE = Rule("ER404", "no_activation_checkpointing", __doc__ or "")


def explain(failure: Failure) -> Finding | None:
    if "_checkpoint_context_fn" not in failure.text and "tag_activation_checkpoint" not in failure.text:
        return None
    return failure.finding(
        RULE,
        "",
        "activation checkpointing is still on in forward",
        "turn checkpointing off for the export (call the block itself), or export with strict=False",
    )


DIAGNOSIS = Diagnosis(RULE, explain)
