"""Python of ``forward`` raises while it is traced, and not when it runs: it takes another way there.

``torch.compiler.is_compiling()``, ``is_exporting()`` and a check of what a tensor is send the trace elsewhere, into
code that was never run: an attribute of None, a missing default, a raise of your own.
Bad: ``if torch.compiler.is_exporting(): mask = mask[:, None]`` where ``mask`` may be None. Good: one way for both.
"""

from __future__ import annotations

import traceback

from pytest_exportready.analysis.source.user_frames import is_users
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER430", "forward_raises_nothing_when_traced", __doc__ or "")


def explain(failure: Failure) -> Finding | None:
    frames = traceback.extract_tb(failure.error.__traceback__)
    torchs = type(failure.error).__module__.split(".")[0] == "torch"
    if torchs or not frames or not is_users(frames[-1].filename):
        return None
    raised = frames[-1]
    return failure.finding(
        RULE,
        "",
        f"{raised.name} raises while it is traced, though it runs",
        "see which condition sends it there (torch.compiler.is_compiling or is_exporting, a kind of tensor), and give "
        "what that way needs, an input such as a mask, or take the same way in both",
        (raised.filename, raised.lineno or 0),
    )


DIAGNOSIS = Diagnosis(RULE, explain, turn="last")
