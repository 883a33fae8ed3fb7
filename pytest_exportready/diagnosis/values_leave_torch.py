"""Tensor values leave torch while the graph is made: numpy, a pointer, pickle, text, a list of Python numbers.

There are no values then. Bad: ``np.percentile(x, 50)``. Good: ``torch.quantile(x, 0.5)``, or a custom operator
(``torch.library.custom_op``) around what has to stay outside.
"""

from __future__ import annotations

import re

from pytest_exportready.analysis.source.failing_call import failing_function
from pytest_exportready.analysis.source.operator_registration import custom_op
from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER420", "values_stay_in_torch", __doc__ or "")

_KINDS = (
    (re.compile(r"\.numpy\(\)|__array__|\bnumpy\b.*FakeTensor|from_numpy|\bndarray\b"), "numpy"),
    (re.compile(r"deepcopy"), "copy.deepcopy"),
    (re.compile(r"data_ptr|data pointer"), "a pointer to the data"),
    (re.compile(r"[Pp]ickle|WeakValueDictionary|__reduce_ex__|serializ", re.IGNORECASE), "pickle or a file"),
    (re.compile(r"format string passed to Sym|Sym(?:Float|Int|Bool) is not JSON"), "text"),
    (re.compile(r"tolist\(\)"), "a list of Python numbers"),
    (re.compile(r"__dlpack__|to_dlpack|cuda_array_interface"), "another library"),
)


def explain(failure: Failure) -> Finding | None:
    for signs, way in _KINDS:
        if failure.says(signs) or (way == "copy.deepcopy" and failure.comes_through("/copy.py")):
            message = f"tensor values leave torch here, as {way}; while the graph is made there are none"
            return failure.finding(RULE, "", message, _fix(failure))
    return None


def _fix(failure: Failure) -> str:
    found = failing_function(failure.error)
    if found is None:
        return "write it with torch operators, or wrap it with @torch.library.custom_op and register_fake"
    name, arguments = found
    return f"write it with torch operators, or make it one:\n{custom_op(name, arguments)}"


DIAGNOSIS = Diagnosis(RULE, explain)
