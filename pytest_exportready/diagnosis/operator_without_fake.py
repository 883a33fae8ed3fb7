"""Every operator that `forward` calls has a fake kernel.

Why it matters:
    torch.export runs fake kernels, without data, to know the shapes of all results.

Example:
    @torch.library.custom_op("example::without_fake", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    class Net(nn.Module):
        def forward(self, x):
            return double(x)

    export_ready_check(Net().eval(), (torch.randn(2, 4),))

Instead:
    @torch.library.custom_op("example::with_fake", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @torch.library.register_fake("example::with_fake")
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

import torch

from pytest_exportready.analysis.source.operator_registration import fake_kernel
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER417", "operators_have_fake_kernels", __doc__ or "")

_SIGNS = (
    r"UnsupportedOperatorException|UnsupportedFakeTensorException|does not support running with fake tensors"
    r"|[Nn]o fake impl|[Mm]issing fake kernel"
    r"|Could not run '[\w:.]+' with arguments from the '\w*Meta'|DynamicOutputShapeException|dynamic output shape"
    r"|not supported with fake tensors|from the 'QuantizedMeta'|Dynamic shape operator"
    r"|__torch__\.torch\.classes"
)
_NAME = (
    r"CustomOpDef\((\w+::\w+)\)|Could not run '(\w+::\w+)|UnsupportedOperatorException: (\w+\.\w+)"
    r"|\b(\w+\.\w+)\.default\b|(__torch__(?:\.\w+)+)"
)


def explain(failure: Failure) -> Finding | None:
    if not failure.says(_SIGNS):
        return None
    named = failure.says(_NAME)
    name = next(filter(None, named.groups()), "") if named else ""
    operator = name.replace(".", "::", 1) if not name.startswith("__torch__") else name.rsplit(".", 1)[-1]
    if operator.startswith("aten::") or "::" not in operator:
        subject = f"`{operator}`" if operator else "An operator"
        return failure.finding(
            RULE,
            f"{subject} has no fake kernel for these inputs (nested, quantized, sparse tensors, or custom classes).",
            "Call it before or after the model, or use dense tensors; quantize after the export (torchao).",
        )
    return failure.finding(
        RULE,
        f"The custom operator `{operator}` has no fake kernel, so the shape of its result is unknown.",
        f"Register a fake kernel:\n{_registration(operator)}",
        where=operator,
    )


def _registration(operator: str) -> str:
    namespace, _, name = operator.partition("::")
    try:
        return fake_kernel(getattr(getattr(torch.ops, namespace), name.split(".")[0]).default)
    except AttributeError:  # no overload of that name
        return f'@torch.library.register_fake("{operator}")\ndef _(x): return torch.empty_like(x)  # reads no data'


DIAGNOSIS = Diagnosis(RULE, explain)
