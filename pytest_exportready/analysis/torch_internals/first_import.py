"""The first import of torch in a process, which has to work without NumPy too, even where warnings are errors."""

from __future__ import annotations

import re
import warnings
from contextlib import suppress

_NO_NUMPY = "Failed to initialize NumPy: No module named 'numpy'"


def import_torch() -> None:
    """Import torch without the warning that NumPy is not installed, which torch does not need.

    Where warnings are errors, that warning makes the import fail, and a second import then ends the process with a
    segmentation fault. An error of another kind is left to whoever imports torch next, where it is reported.
    """
    with warnings.catch_warnings(), suppress(Exception):
        warnings.filterwarnings("ignore", re.escape(_NO_NUMPY), UserWarning)
        import torch  # noqa: F401
