"""The fake kernel of a custom operator uses shapes and dtypes only, and describes what the operator returns.

Why it matters:
    While torch.export traces, it calls the fake kernel with tensors that have no data.

Example:
    @torch.library.custom_op("example::reads_data", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @double.register_fake
    def _(x):
        return torch.empty_like(x) if x.data_ptr() else x

    class Net(nn.Module):
        def forward(self, x):
            return double(x)

    export_ready_check(Net().eval(), (torch.randn(2, 4),))

Instead:
    @torch.library.custom_op("example::reads_shape", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @double.register_fake
    def _(x):
        return torch.empty_like(x)

    class Net(nn.Module):
        def forward(self, x):
            return double(x)

    export_ready_check(Net().eval(), (torch.randn(2, 4),))

Severity:
    error: the export fails.
"""

from __future__ import annotations

from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER418", "fake_kernels_need_no_data", __doc__ or "")

_FILES = ("torch/_library/fake_impl.py", "torch/_library/custom_ops.py")
_READS = r"data pointer|[Dd]ata-dependent|\.numpy\(\)|\.item\(\)"
_MISMATCH = r"MetadataMismatchError|[Mm]ismatched fake kernel|in your fake implementation"


def explain(failure: Failure) -> Finding | None:
    reads = failure.says(_READS)
    if not failure.comes_through(*_FILES) or not (reads or failure.says(_MISMATCH)):
        return None
    return failure.finding(
        RULE,
        "A fake kernel reads tensor data."
        if reads
        else "A fake kernel returns another shape or dtype than its operator.",
        "Use shapes and dtypes only: `torch.empty_like(x)`, or `torch.library.get_ctx().new_dynamic_size()` for a size"
        " that depends on data. Verify it with `torch.library.opcheck`.",
    )


DIAGNOSIS = Diagnosis(RULE, explain, turn="first")
