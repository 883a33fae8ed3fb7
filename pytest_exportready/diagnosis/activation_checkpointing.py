"""Activation checkpointing is still on: strict export trips over it with an internal key error.

It only saves training memory. Good: call the block directly when the model is exported, or ``strict=False``.
"""

from __future__ import annotations

import re

from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER404", "no_activation_checkpointing", __doc__ or "")

_SIGNS = re.compile(r"_checkpoint_context_fn|tag_activation_checkpoint|checkpoint not implemented|CheckpointError")


def explain(failure: Failure) -> Finding | None:
    if failure.says(_SIGNS) is None:
        return None
    return failure.finding(
        RULE,
        "",
        "activation checkpointing is still on in forward",
        "turn checkpointing off for the export (call the block itself), or export with strict=False",
    )


DIAGNOSIS = Diagnosis(RULE, explain)
