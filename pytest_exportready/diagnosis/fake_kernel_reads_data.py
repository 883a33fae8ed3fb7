"""A fake kernel asks for data, or its result is not like that of the operator: it may only use shapes and dtypes.

Good: ``torch.empty_like(x)``; for a size that only data tell, ``n = torch.library.get_ctx().new_dynamic_size()``.
Prove it with ``torch.library.opcheck``.
"""

from __future__ import annotations

import re

from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER418", "fake_kernels_need_no_data", __doc__ or "")

_FAKE = ("torch/_library/fake_impl.py", "torch/_library/custom_ops.py")
_SIGNS = re.compile(r"data pointer|[Dd]ata-dependent|\.numpy\(\)|\.item\(\)")
_MISMATCH = re.compile(r"MetadataMismatchError|[Mm]ismatched fake kernel|in your fake implementation")


def explain(failure: Failure) -> Finding | None:
    reads = failure.comes_through(*_FAKE) and failure.says(_SIGNS)
    if not (reads or (failure.says(_MISMATCH) and failure.comes_through(*_FAKE))):
        return None
    return failure.finding(
        RULE,
        "",
        "a fake kernel reads tensor data" if reads else "a fake kernel gives another result than its operator",
        "use shapes and dtypes only: torch.empty_like(x), or torch.library.get_ctx().new_dynamic_size() for a size"
        " that only data tell; prove it with torch.library.opcheck",
    )


DIAGNOSIS = Diagnosis(RULE, explain, turn="first")
