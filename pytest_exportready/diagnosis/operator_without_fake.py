"""An operator cannot run without data: torch.export has to know the shape of its result beforehand.

Good: ``@torch.library.register_fake("mylib::op")`` on a function that returns ``torch.empty_like(x)``.
"""

from __future__ import annotations

import re

import torch

from pytest_exportready.analysis.source.operator_registration import fake_kernel
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER417", "operators_have_fake_kernels", __doc__ or "")

_SIGNS = re.compile(
    r"UnsupportedOperatorException|UnsupportedFakeTensorException|does not support running with fake tensors"
    r"|[Nn]o fake impl|[Mm]issing fake kernel"
    r"|Could not run '[\w:.]+' with arguments from the '\w*Meta'|DynamicOutputShapeException|dynamic output shape"
    r"|not supported with fake tensors|from the 'QuantizedMeta'|Dynamic shape operator"
    r"|__torch__\.torch\.classes"
)
_NAME = re.compile(
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
        return failure.finding(
            RULE,
            "",
            f"{operator or 'an operator'} cannot be traced: torch has no fake kernel for it"
            " (nested, quantised and sparse tensors, custom classes)",
            "do it before or after the model, or write it with dense tensors; quantise after the export (torchao)",
        )
    return failure.finding(
        RULE,
        operator,
        f"the custom operator {operator} has no fake kernel, so that the shape of its result is unknown",
        _registration(operator),
    )


def _registration(operator: str) -> str:
    namespace, _, name = operator.partition("::")
    try:
        return fake_kernel(getattr(getattr(torch.ops, namespace), name.split(".")[0]).default)
    except AttributeError:  # no overload of that name
        return f'@torch.library.register_fake("{operator}") def _(x): return torch.empty_like(x)  # no data is read'


DIAGNOSIS = Diagnosis(RULE, explain)
