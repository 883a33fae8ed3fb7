"""The first import of torch in a process, which must succeed without NumPy even if warnings are errors."""

from __future__ import annotations

import re
import warnings
from contextlib import suppress

_NO_NUMPY = "Failed to initialize NumPy: No module named 'numpy'"


def import_torch() -> None:
    """Import torch without the warning that NumPy is not installed.

    If warnings are errors, that warning makes the import fail, and a second import then crashes the process. Other
    errors are suppressed; the next import of torch raises and reports them.
    """
    with warnings.catch_warnings(), suppress(Exception):
        warnings.filterwarnings("ignore", re.escape(_NO_NUMPY), UserWarning)
        import torch  # noqa: F401
