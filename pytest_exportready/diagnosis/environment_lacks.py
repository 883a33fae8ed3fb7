"""The machine that exports lacks something: a package, a compiler, memory."""

from __future__ import annotations

import re

from pytest_exportready.case.finding import Finding, Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Failure

RULE = Rule("ER424", "environment_complete", __doc__ or "")

_PACKAGE = re.compile(r"No module named '([\w.]+)'|Import failure|Numpy is not available|(\w+) is not installed")
_MEMORY = re.compile(r"OutOfMemoryError|out of memory|can't allocate memory|bad_alloc|MemoryError")
_COMPILER = re.compile(r"[Cc]ompiler .*not found|InvalidCxxCompiler|CppCompileError")


def explain(failure: Failure) -> Finding | None:
    package = failure.says(_PACKAGE)
    if package:
        name = (package[1] or package[2] or "what is imported").split(".")[0]
        return failure.finding(RULE, "", f"the package {name} is missing here", f"install {name} where the export runs")
    if failure.says(_MEMORY):
        return failure.finding(RULE, "", "there was not enough memory", "export on a larger machine, or on the CPU")
    if failure.says(_COMPILER):
        return failure.finding(RULE, "", "there is no compiler", "install a C++ compiler where the export runs")
    return None


DIAGNOSIS = Diagnosis(RULE, explain)
