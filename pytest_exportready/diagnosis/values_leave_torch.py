"""Tensor values do not leave torch in `forward`: not as NumPy, a pointer, pickle, text or a list of Python numbers.

Why it matters:
    Tensors have no values while torch.export traces. Put code that must stay outside of torch into a custom operator.

Example:
    class Net(nn.Module):
        def forward(self, x):
            return torch.from_numpy(x.numpy().clip(0, 1))

    export_ready_check(Net().eval(), (torch.randn(2, 4),))

Instead:
    class Net(nn.Module):
        def forward(self, x):
            return x.clip(0, 1)

    export_ready_check(Net().eval(), (torch.randn(2, 4),))

Severity:
    error: the export fails.
"""

from __future__ import annotations

from pytest_exportready.analysis.source.failing_call import failing_function
from pytest_exportready.analysis.source.operator_registration import custom_op
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER420", "values_stay_in_torch", __doc__ or "")

_KINDS = (
    (r"\.numpy\(\)|__array__|\bnumpy\b.*FakeTensor|from_numpy|\bndarray\b", "as a NumPy array", ()),
    (r"deepcopy", "in `copy.deepcopy`", ("/copy.py",)),
    (r"data_ptr|data pointer", "as a pointer to the data", ()),
    (r"(?i)pickle|WeakValueDictionary|__reduce_ex__|serializ", "as a pickle or a file", ()),
    (r"format string passed to Sym|Sym(?:Float|Int|Bool) is not JSON", "as text", ()),
    (r"tolist\(\)", "as a list of Python numbers", ()),
    (r"__dlpack__|to_dlpack|cuda_array_interface", "to another library", ()),
)


def explain(failure: Failure) -> Finding | None:
    for pattern, how, files in _KINDS:
        if failure.says(pattern) or failure.comes_through(*files):
            message = f"Tensor values leave torch here, {how}. While torch.export traces, tensors have no values."
            return failure.finding(RULE, message, _fix(failure))
    return None


def _fix(failure: Failure) -> str:
    found = failing_function(failure.error)
    if found is None:
        return "Use torch operators, or wrap the code with `@torch.library.custom_op` and `register_fake`."
    name, arguments = found
    return f"Use torch operators, or make it a custom operator:\n{custom_op(name, arguments)}"


DIAGNOSIS = Diagnosis(RULE, explain)
