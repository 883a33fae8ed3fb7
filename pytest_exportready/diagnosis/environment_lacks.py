"""The machine that exports has the packages and the compiler that the export needs.

Why it matters:
    Where one of them is missing, the failure says nothing about the model.

Severity:
    error: the export fails.

Not reported:
    Running out of memory, and other faults of the machine, are infrastructure errors.
"""

from __future__ import annotations

from pytest_exportready.case.finding import Rule
from pytest_exportready.diagnosis._diagnosis import Diagnosis, Signs

RULE = Rule("ER424", "environment_complete", __doc__ or "")

DIAGNOSIS = Diagnosis.by_signs(
    RULE,
    Signs(
        r"No module named '(\w+)|(Numpy) is not available|(\w+) is not installed",
        r"The package `\1\2\3` is not installed.",
        r"Install `\1\2\3` where the export runs.",
    ),
    Signs(
        r"Import failure",
        "A package that `forward` imports is not installed.",
        "Install the package where the export runs.",
    ),
    Signs(
        r"[Cc]ompiler .*not found|InvalidCxxCompiler|CppCompileError",
        "No C++ compiler was found.",
        "Install a C++ compiler where the export runs.",
    ),
)
